#include "ring/ntt.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "arith/primes.h"
#include "ring/bit_reverse.h"

namespace cipherblas {

namespace {

// a * w mod q, with the quotient of w at hand.
std::uint64_t shoup_multiply(std::uint64_t a, std::uint64_t w, std::uint64_t quotient, const Modulus& m) {
    const auto estimate = static_cast<std::uint64_t>((static_cast<u128>(a) * quotient) >> kWordBits);
    const std::uint64_t r = a * w - estimate * m.q;
    return r >= m.q ? r - m.q : r;
}

// The smallest of all primitive 2N-th roots of unity: one root's odd powers are all of them.
std::uint64_t smallest_root(const Modulus& m, std::uint64_t n) {
    const std::uint64_t exponent = (m.q - 1) / (2 * n);
    std::uint64_t root = 0;
    for (std::uint64_t x = 2; pow_mod(root, n, m) != m.q - 1; ++x) root = pow_mod(x, exponent, m);
    const std::uint64_t square = mul_mod(root, root, m);
    const std::uint64_t quotient = shoup_quotient(square, m);
    std::uint64_t smallest = root;
    for (std::uint64_t i = 1; i < n; ++i) {
        root = shoup_multiply(root, square, quotient, m);
        if (root < smallest) smallest = root;
    }
    return smallest;
}

// Writes the powers of `root` to two arrays of N words each.
NttTable::Powers make_powers(std::uint64_t root, const Modulus& m, int log_n, std::uint64_t* plain,
                             std::uint64_t* quotient) {
    const std::size_t n = std::size_t{1} << log_n;
    const std::uint64_t root_quotient = shoup_quotient(root, m);
    std::uint64_t w = 1;
    for (std::size_t exponent = 0; exponent < n; ++exponent) {
        const std::uint32_t i = bit_reverse(static_cast<std::uint32_t>(exponent), log_n);
        plain[i] = w;
        quotient[i] = shoup_quotient(w, m);
        w = shoup_multiply(w, root, root_quotient, m);
    }
    return {{plain, n}, {quotient, n}};
}

}  // namespace

NttTable::NttTable(const Modulus& m, int log_degree) : modulus(m), log_n(log_degree) {
    if (log_n < 3 || log_n > 17) {
        throw std::invalid_argument("NTT: expected log2(N) from 3 to 17, got " + std::to_string(log_n));
    }
    const std::uint64_t n = std::uint64_t{1} << log_n;
    if (m.q % (2 * n) != 1 || !is_prime(m.q)) {
        throw std::invalid_argument("NTT: expected a prime = 1 mod " + std::to_string(2 * n) + ", got " +
                                    std::to_string(m.q));
    }
    psi = smallest_root(m, n);
    storage_.resize(4 * n);
    std::uint64_t* const words = storage_.data();
    roots = make_powers(psi, m, log_n, words, words + n);
    inverse_roots = make_powers(inv_mod(psi, m), m, log_n, words + 2 * n, words + 3 * n);
    n_inverse = inv_mod(n % m.q, m);
    n_inverse_quotient = shoup_quotient(n_inverse, m);
    last_root = mul_mod(inverse_roots.plain[1], n_inverse, m);
    last_root_quotient = shoup_quotient(last_root, m);
}

std::uint32_t* short_limb(int log_n) {
    thread_local AlignedVector<std::uint32_t> room;
    room.resize(std::max(room.size(), std::size_t{1} << log_n));
    return room.data();
}

}  // namespace cipherblas
