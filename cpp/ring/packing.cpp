#include "ring/packing.h"

#include <bit>
#include <numeric>

namespace cipherblas {
namespace {

static_assert(std::endian::native == std::endian::little);

// Words after which the bits begin with a word again.
template <int BITS>
constexpr std::size_t kPeriod = 64 / std::gcd(64, BITS);

template <int BITS>
void pack_words(std::uint64_t* r, const std::uint64_t* x, std::size_t count) {
    std::uint64_t word = 0;
    int filled = 0;
#pragma GCC unroll 32
    for (std::size_t i = 0; i < count; ++i) {
        word |= x[i] << filled;
        filled += BITS;
        if (filled < 64) continue;
        *r++ = word;
        filled -= 64;
        word = filled == 0 ? 0 : x[i] >> (BITS - filled);
    }
    if (filled > 0) *r = word;
}

template <int BITS>
void pack_all(std::uint64_t* r, const std::uint64_t* x, std::size_t n) {
    constexpr std::size_t kStep = kPeriod<BITS>;
    for (; n >= kStep; n -= kStep, x += kStep, r += packed_words(kStep, BITS)) {
        pack_words<BITS>(r, x, kStep);
    }
    pack_words<BITS>(r, x, n);
}

template <int BITS>
void unpack_all(std::uint64_t* r, const std::uint64_t* packed, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) r[i] = packed_word(packed, i, BITS);
}

}  // namespace

void pack(std::uint64_t* r, const std::uint64_t* x, std::size_t n, int bits) {
    bits == 32   ? pack_all<32>(r, x, n)
    : bits == 40 ? pack_all<40>(r, x, n)
    : bits == 48 ? pack_all<48>(r, x, n)
                 : pack_all<50>(r, x, n);
}

void unpack(std::uint64_t* r, const std::uint64_t* packed, std::size_t n, int bits) {
    bits == 32   ? unpack_all<32>(r, packed, n)
    : bits == 40 ? unpack_all<40>(r, packed, n)
    : bits == 48 ? unpack_all<48>(r, packed, n)
                 : unpack_all<50>(r, packed, n);
}

void write_factor(void* r, const std::uint64_t* x, std::size_t n, int bits) {
    if (halves_of(bits) == 2) {
        std::memcpy(r, x, n * sizeof(std::uint64_t));
        return;
    }
    std::uint32_t* const halves = static_cast<std::uint32_t*>(r);
    for (std::size_t i = 0; i < n; ++i) halves[i] = static_cast<std::uint32_t>(x[i]);
}

}  // namespace cipherblas
