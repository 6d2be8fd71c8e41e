#include "ring/samplers.h"

#include <array>
#include <stdexcept>

namespace cipherblas {
namespace {

// round(2^63 Pr[|x| <= k]) for k = 0, 1, ...; the next entries are 2^63.
constexpr std::array<std::uint64_t, kLargestNoise> kCumulative = {
    0x0ff52b4064a1f258, 0x2e5a25d4026fff6e, 0x489ae2682e3db9bb, 0x5d2bc20de6f95106, 0x6bc8694a862fcdcf,
    0x7532d898e9d195da, 0x7ab396c980f5facb, 0x7d9e4e8f6717ea70, 0x7f054956150a592b, 0x7fa1ce99f8dbf691,
    0x7fdfb3f00a8f3398, 0x7ff5e6f7c97d68d9, 0x7ffd1f95b372bd36, 0x7fff40f7f7aedc64, 0x7fffd2e62d057ef0,
    0x7ffff6503aaa2875, 0x7ffffe1bab99a744, 0x7fffffaa0140ce53, 0x7ffffff21f8a3a77, 0x7ffffffdf72301f4,
    0x7fffffffba9fd472, 0x7ffffffff79b78ce, 0x7fffffffff13f6f9, 0x7fffffffffe8748a, 0x7ffffffffffdde24,
    0x7fffffffffffd320, 0x7ffffffffffffca7, 0x7fffffffffffffc6, 0x7ffffffffffffffc,
};

}  // namespace

void sample_uniform(std::uint64_t* out, const std::uint64_t* words, std::size_t n, const Modulus& m) {
    const std::uint64_t quotient = static_cast<std::uint64_t>((u128{1} << 64) / m.q);
    const std::uint64_t limit = quotient * m.q;
    const std::size_t available = n + kUniformSpareWords;
    std::size_t used = 0;
    for (std::size_t i = 0; i < n; ++i) {
        while (used < available && words[used] >= limit) ++used;
        if (used == available) throw std::runtime_error("uniform residues: the random words ran out");
        const std::uint64_t word = words[used++];
        // The estimate of word / q from above's quotient is at most one too small.
        const std::uint64_t estimate = static_cast<std::uint64_t>((static_cast<u128>(word) * quotient) >> 64);
        std::uint64_t residue = word - estimate * m.q;
        while (residue >= m.q) residue -= m.q;
        out[i] = residue;
    }
}

void sample_ternary(std::int64_t* out, const std::uint8_t* bytes, std::size_t count, std::size_t n) {
    std::size_t used = 0;
    for (std::size_t i = 0; i < n; ++i) {
        while (used < count && bytes[used] == 255) ++used;
        if (used == count) throw std::runtime_error("ternary coefficients: the random bytes ran out");
        out[i] = static_cast<std::int64_t>(bytes[used++] % 3) - 1;
    }
}

void sample_gaussian(std::int64_t* out, const std::uint64_t* words, std::size_t n) {
    constexpr std::size_t kBlock = 64;
    for (std::size_t offset = 0; offset < n; offset += kBlock) {
        const std::size_t length = n - offset < kBlock ? n - offset : kBlock;
        std::array<std::int64_t, kBlock> magnitude{};
        for (const std::uint64_t bound : kCumulative) {
            for (std::size_t i = 0; i < length; ++i) {
                // The difference of two numbers below 2^63 is negative exactly when the word is below the
                // bound.
                const std::uint64_t below = ((words[offset + i] >> 1) - bound) >> 63;
                magnitude[i] += static_cast<std::int64_t>(1 - below);
            }
        }
        for (std::size_t i = 0; i < length; ++i) {
            const std::int64_t sign = -static_cast<std::int64_t>(words[offset + i] & 1);
            out[offset + i] = (magnitude[i] ^ sign) - sign;
        }
    }
}

}  // namespace cipherblas
