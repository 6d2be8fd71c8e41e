// An integer as its residue.
#pragma once
#include <cstdint>

namespace cipherblas::gemm {

inline std::uint64_t lift(std::uint64_t residue, std::uint64_t) { return residue; }

// x mod q in [0, q); a small x takes no division.
inline std::uint64_t lift(std::int64_t x, std::uint64_t q) {
    const std::int64_t modulus = static_cast<std::int64_t>(q);
    if (x >= modulus || x <= -modulus) x %= modulus;
    return static_cast<std::uint64_t>(x < 0 ? x + modulus : x);
}
inline std::uint64_t lift(std::int8_t x, std::uint64_t q) { return lift(std::int64_t{x}, q); }
inline std::uint64_t lift(std::int16_t x, std::uint64_t q) { return lift(std::int64_t{x}, q); }
inline std::uint64_t lift(std::int32_t x, std::uint64_t q) { return lift(std::int64_t{x}, q); }
inline std::uint64_t lift(double x, std::uint64_t q) { return lift(static_cast<std::int64_t>(x), q); }

}  // namespace cipherblas::gemm
