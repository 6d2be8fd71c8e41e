// A prime modulus below 2^50 with the constants that every kernel needs.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cipherblas {

// Limb primes are below 2^50 so that lazy values below 4q fit the 52-bit words of AVX-512 IFMA
// and products of residues are exact in error-free float64 arithmetic.
inline constexpr int kMaxModulusBits = 50;
inline constexpr int kWordBits = 52;  // Montgomery radix R = 2^52
inline constexpr std::uint64_t kWordMask = (std::uint64_t{1} << kWordBits) - 1;

using u128 = unsigned __int128;

struct Modulus {
    std::uint64_t q = 0;         // odd prime, 2 < q < 2^50
    int bits = 0;                // bit length of q
    std::uint64_t mu = 0;        // floor(2^(bits - 1 + 52) / q), below 2^52 (Barrett)
    std::uint64_t q_inv = 0;     // q^-1 mod 2^52 (Montgomery)
    std::uint64_t r_mod_q = 0;   // 2^52 mod q
    std::uint64_t r2_mod_q = 0;  // 2^104 mod q
    double q_reciprocal = 0.0;   // 1.0 / q (AVX2 path)

    Modulus() = default;
    explicit Modulus(std::uint64_t prime);  // throws std::invalid_argument unless odd and 2 < prime < 2^50
};

inline std::uint64_t add_mod(std::uint64_t a, std::uint64_t b, const Modulus& m) {
    const std::uint64_t s = a + b;
    return s >= m.q ? s - m.q : s;
}
inline std::uint64_t sub_mod(std::uint64_t a, std::uint64_t b, const Modulus& m) {
    return a >= b ? a - b : a + m.q - b;
}
inline std::uint64_t mul_mod(std::uint64_t a, std::uint64_t b, const Modulus& m) {
    return static_cast<std::uint64_t>(static_cast<u128>(a) * b % m.q);
}
// t * 2^-52 mod q, fully reduced, for any t below 2^114.
std::uint64_t montgomery_reduce(u128 t, const Modulus& m);
inline std::uint64_t to_montgomery(std::uint64_t a, const Modulus& m) { return mul_mod(a, m.r_mod_q, m); }

// floor(w * 2^52 / q) for w < q: the companion of a constant factor w in Shoup's product.
inline std::uint64_t shoup_quotient(std::uint64_t w, const Modulus& m) {
    return static_cast<std::uint64_t>((static_cast<u128>(w) << kWordBits) / m.q);
}

std::uint64_t pow_mod(std::uint64_t base, std::uint64_t exponent, const Modulus& m);
std::uint64_t inv_mod(std::uint64_t a, const Modulus& m);  // throws std::invalid_argument when a = 0 mod q

}  // namespace cipherblas
