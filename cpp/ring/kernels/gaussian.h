// Discrete Gaussian values, for every instruction set: every word is compared with every bound, whatever it is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cipherblas {
namespace {  // internal linkage: every instruction set has its own copy
namespace noise {

// round(2^63 Pr[|x| <= k]) for k = 0, 1, ...; the next entries are 2^63.
constexpr std::uint64_t kCumulative[] = {
    0x0ff52b4064a1f258, 0x2e5a25d4026fff6e, 0x489ae2682e3db9bb, 0x5d2bc20de6f95106, 0x6bc8694a862fcdcf,
    0x7532d898e9d195da, 0x7ab396c980f5facb, 0x7d9e4e8f6717ea70, 0x7f054956150a592b, 0x7fa1ce99f8dbf691,
    0x7fdfb3f00a8f3398, 0x7ff5e6f7c97d68d9, 0x7ffd1f95b372bd36, 0x7fff40f7f7aedc64, 0x7fffd2e62d057ef0,
    0x7ffff6503aaa2875, 0x7ffffe1bab99a744, 0x7fffffaa0140ce53, 0x7ffffff21f8a3a77, 0x7ffffffdf72301f4,
    0x7fffffffba9fd472, 0x7ffffffff79b78ce, 0x7fffffffff13f6f9, 0x7fffffffffe8748a, 0x7ffffffffffdde24,
    0x7fffffffffffd320, 0x7ffffffffffffca7, 0x7fffffffffffffc6, 0x7ffffffffffffffc,
};

typedef std::int64_t Signed4 __attribute__((vector_size(32)));
typedef std::int64_t Signed8 __attribute__((vector_size(64)));

// The sign is the last bit of a word, and the other bits are below so many bounds that the magnitude is the rest of them.
// V has several lanes, on which a comparison gives 0 or -1. VECTORS go side by side.
template <typename V, int VECTORS>
[[gnu::always_inline]] inline void sample(std::int64_t* r, const std::uint64_t* words) {
    constexpr std::size_t kLanes = sizeof(V) / sizeof(std::int64_t);
    V half[VECTORS], sign[VECTORS], magnitude[VECTORS];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < VECTORS; ++i) {
        V word;
        std::memcpy(&word, words + i * kLanes, sizeof word);
        half[i] = word >> 1 & INT64_MAX;
        sign[i] = -(word & 1);
        magnitude[i] = V{};
    }
    for (const std::uint64_t bound : kCumulative) {
        const V at = V{} + static_cast<std::int64_t>(bound);
#pragma GCC unroll 8
        for (std::size_t i = 0; i < VECTORS; ++i) magnitude[i] -= half[i] >= at;
    }
#pragma GCC unroll 8
    for (std::size_t i = 0; i < VECTORS; ++i) {
        const V value = (magnitude[i] ^ sign[i]) - sign[i];
        std::memcpy(r + i * kLanes, &value, sizeof value);
    }
}

template <typename V>
void gaussian(std::int64_t* r, const std::uint64_t* words, std::size_t n) {
    constexpr std::size_t kLanes = sizeof(V) / sizeof(std::int64_t);
    constexpr int kVectors = 4;
    std::size_t i = 0;
    for (; i + kVectors * kLanes <= n; i += kVectors * kLanes) sample<V, kVectors>(r + i, words + i);
    for (; i + kLanes <= n; i += kLanes) sample<V, 1>(r + i, words + i);
    if (i == n) return;
    std::uint64_t rest[kLanes] = {};
    std::int64_t values[kLanes];
    std::memcpy(rest, words + i, (n - i) * sizeof *rest);
    sample<V, 1>(values, rest);
    std::memcpy(r + i, values, (n - i) * sizeof *values);
}

}  // namespace noise
}  // namespace
}  // namespace cipherblas
