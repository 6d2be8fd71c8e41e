#include "arith/modulus.h"

#include <bit>
#include <stdexcept>
#include <string>

namespace cipherblas {

namespace {

// q^-1 mod 2^52 by Newton's iteration; q * q = 1 mod 8 gives 3 correct bits to start, doubled by every step.
std::uint64_t inverse_mod_word(std::uint64_t q) {
    std::uint64_t x = q;
    for (int correct_bits = 3; correct_bits < kWordBits; correct_bits *= 2) x *= 2 - q * x;
    return x & kWordMask;
}

}  // namespace

Modulus::Modulus(std::uint64_t prime) : q(prime) {
    if (prime < 3 || prime % 2 == 0 || prime >> kMaxModulusBits != 0) {
        throw std::invalid_argument("modulus: expected an odd number with 2 < q < 2^50, got " +
                                    std::to_string(prime));
    }
    bits = std::bit_width(q);
    mu = static_cast<std::uint64_t>((u128{1} << (bits - 1 + kWordBits)) / q);
    q_inv = inverse_mod_word(q);
    r_mod_q = static_cast<std::uint64_t>((u128{1} << kWordBits) % q);
    r2_mod_q = static_cast<std::uint64_t>((u128{1} << (2 * kWordBits)) % q);
    q_reciprocal = 1.0 / static_cast<double>(q);
}

// Signed Montgomery reduction: with u = t * q^-1 mod 2^52, t - u*q is a multiple of 2^52, so the difference
// of the high parts is exact. It lies in (-q, 2^62).
std::uint64_t montgomery_reduce(u128 t, const Modulus& m) {
    const std::uint64_t u = (static_cast<std::uint64_t>(t) * m.q_inv) & kWordMask;
    const std::uint64_t high = static_cast<std::uint64_t>(t >> kWordBits);
    const std::uint64_t multiple = static_cast<std::uint64_t>((static_cast<u128>(u) * m.q) >> kWordBits);
    return (high + m.q - multiple) % m.q;
}

std::uint64_t pow_mod(std::uint64_t base, std::uint64_t exponent, const Modulus& m) {
    std::uint64_t result = 1;
    for (base %= m.q; exponent != 0; exponent >>= 1) {
        if (exponent & 1) result = mul_mod(result, base, m);
        base = mul_mod(base, base, m);
    }
    return result;
}

std::uint64_t inv_mod(std::uint64_t a, const Modulus& m) {
    if (a % m.q == 0)
        throw std::invalid_argument("inv_mod: expected a non-zero residue, got 0 mod " + std::to_string(m.q));
    return pow_mod(a, m.q - 2, m);
}

}  // namespace cipherblas
