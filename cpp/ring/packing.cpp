#include "ring/packing.h"

#include <bit>

namespace cipherblas {

static_assert(std::endian::native == std::endian::little);

// Four words at a time are three.
void pack(std::uint64_t* r, const std::uint64_t* x, std::size_t n) {
    for (std::size_t i = 0; i < n; i += 4, r += 3) {
        r[0] = x[i] | x[i + 1] << 48;
        r[1] = x[i + 1] >> 16 | x[i + 2] << 32;
        r[2] = x[i + 2] >> 32 | x[i + 3] << 16;
    }
}

void unpack(std::uint64_t* r, const std::uint64_t* packed, std::size_t n) {
    constexpr std::uint64_t kMask = (std::uint64_t{1} << kPackedBits) - 1;
    for (std::size_t i = 0; i < n; i += 4, packed += 3) {
        r[i] = packed[0] & kMask;
        r[i + 1] = (packed[0] >> 48 | packed[1] << 16) & kMask;
        r[i + 2] = (packed[1] >> 32 | packed[2] << 32) & kMask;
        r[i + 3] = packed[2] >> 16;
    }
}

}  // namespace cipherblas
