// Bit reversal of an index.
#pragma once
#include <cstdint>

namespace cipherblas {

constexpr std::uint32_t bit_reverse(std::uint32_t value, int bits) {
    std::uint32_t result = 0;
    for (int i = 0; i < bits; ++i) result |= ((value >> i) & 1u) << (bits - 1 - i);
    return result;
}

}  // namespace cipherblas
