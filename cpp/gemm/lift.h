// An integer as its residue.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

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

// True if all entries are below q in absolute value; of short integers, if any of that type is.
template <typename T>
bool all_small(const T* from, std::ptrdiff_t stride, std::size_t n, std::uint64_t q) {
    if constexpr (std::is_integral_v<T> && sizeof(T) < sizeof(std::int64_t)) {
        return q > static_cast<std::uint64_t>(std::numeric_limits<T>::max()) + 1;
    } else {
        const auto modulus = static_cast<T>(q);
        bool small = true;
        for (std::size_t i = 0; i < n; ++i) {
            const T x = from[static_cast<std::ptrdiff_t>(i) * stride];
            small &= x < modulus && x > -modulus;
        }
        return small;
    }
}

// The residues of n signed entries; those below q take neither division nor branch.
template <typename T>
void lift_line(std::uint64_t* to, const T* from, std::ptrdiff_t stride, std::size_t n, std::uint64_t q) {
    static_assert(std::is_signed_v<T>);
    if (!all_small(from, stride, n, q)) {
        for (std::size_t i = 0; i < n; ++i) to[i] = lift(from[static_cast<std::ptrdiff_t>(i) * stride], q);
        return;
    }
    for (std::size_t i = 0; i < n; ++i) {
        const auto x = static_cast<std::int64_t>(from[static_cast<std::ptrdiff_t>(i) * stride]);
        to[i] = static_cast<std::uint64_t>(x) + (static_cast<std::uint64_t>(x >> 63) & q);
    }
}

// n signed entries plus an offset that makes none of them negative.
template <typename T>
void offset_line(std::uint64_t* to, const T* from, std::ptrdiff_t stride, std::size_t n,
                 std::uint64_t offset) {
    static_assert(std::is_signed_v<T>);
    for (std::size_t i = 0; i < n; ++i) {
        to[i] = static_cast<std::uint64_t>(
                    static_cast<std::int64_t>(from[static_cast<std::ptrdiff_t>(i) * stride])) +
                offset;
    }
}

}  // namespace cipherblas::gemm
