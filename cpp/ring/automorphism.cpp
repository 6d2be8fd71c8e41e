#include "ring/automorphism.h"

#include <stdexcept>
#include <string>

#include "ring/bit_reverse.h"

namespace cipherblas {

namespace {

void check_log_n(int log_n) {
    if (log_n < 3 || log_n > 17) {
        throw std::invalid_argument("log2 of the ring degree: expected 3 to 17, got " +
                                    std::to_string(log_n));
    }
}

}  // namespace

// Position i holds the value at psi^e(i), e(i) = 2 bitrev(i) + 1, and a(X^g) at psi^e is a at psi^(g e).
//
// Write i = 8b + l. Then e(i) = e_b + (N/4) rev3(l), where e_b = 2 bitrev(b) + 1 < N/4 (over log_n - 3 bits)
// selects the block. Hence g e(i) = g e_b + (N/4) g rev3(l) mod 2N: its residue mod N/4 (the source block)
// does not depend on l, and the source lane is rev3( c + g rev3(l) mod 8 ) with c = floor(g e_b / (N/4)) mod
// 8: one of eight lane maps.
Permutation::Permutation(std::uint64_t galois_element, int log_n) : galois(galois_element) {
    check_log_n(log_n);
    const std::uint64_t n = std::uint64_t{1} << log_n;
    if (galois % 2 == 0 || galois >= 2 * n) {
        throw std::invalid_argument("Galois element: expected an odd number below " + std::to_string(2 * n) +
                                    ", got " + std::to_string(galois));
    }
    for (std::uint32_t c = 0; c < 8; ++c) {
        for (std::uint32_t lane = 0; lane < 8; ++lane) {
            lanes[c][lane] =
                bit_reverse(static_cast<std::uint32_t>((c + galois * bit_reverse(lane, 3)) % 8), 3);
        }
    }
    const std::uint64_t quarter = n / 4;
    blocks.resize(n / 8);
    index.resize(n);
    for (std::uint32_t block = 0; block < n / 8; ++block) {
        const std::uint64_t exponent = galois * (2 * bit_reverse(block, log_n - 3) + 1) % (2 * n);
        const auto source = bit_reverse(static_cast<std::uint32_t>((exponent % quarter) / 2), log_n - 3);
        const auto map = static_cast<std::uint32_t>(exponent / quarter);
        blocks[block] = source * 8 + map;
        for (std::uint32_t lane = 0; lane < 8; ++lane) {
            index[8 * block + lane] = source * 8 + static_cast<std::uint32_t>(lanes[map][lane]);
        }
    }
}

std::uint64_t galois_element(std::int64_t step, int log_n) {
    check_log_n(log_n);
    const std::uint64_t mask = (std::uint64_t{2} << log_n) - 1;
    const std::int64_t slots = std::int64_t{1} << (log_n - 1);  // the order of 5 mod 2N
    std::uint64_t exponent = static_cast<std::uint64_t>((step % slots + slots) % slots);
    std::uint64_t result = 1;
    for (std::uint64_t power = 5; exponent != 0; exponent >>= 1) {
        if (exponent & 1) result = (result * power) & mask;
        power = (power * power) & mask;
    }
    return result;
}

void substitute_power(std::uint64_t* out, const std::uint64_t* x, std::uint64_t galois, int log_n) {
    const std::uint64_t n = std::uint64_t{1} << log_n;
    std::uint64_t power = 0;
    for (std::uint64_t i = 0; i < n; ++i, power += galois) {
        const std::uint64_t negative = 0 - (power >> log_n & 1);
        out[power & (n - 1)] = (x[i] ^ negative) - negative;
    }
}

std::uint64_t inverse_mod_power_of_two(std::uint64_t odd, std::uint64_t mask) {
    std::uint64_t x = odd;  // right in 3 bits; every step doubles them
    for (int bits = 3; bits < 64; bits *= 2) x *= 2 - odd * x;
    return x & mask;
}

}  // namespace cipherblas
