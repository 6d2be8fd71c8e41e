// Words below 2^48 in six bytes each, one after the other: what a computation streams from memory, it streams in three
// quarters of the time. Keys are kept so.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cipherblas {

inline constexpr int kPackedBits = 48;
inline constexpr std::size_t kPackedBytes = kPackedBits / 8;

// The room of n packed words, n a multiple of 4, in words.
constexpr std::size_t packed_words(std::size_t n) { return n / 4 * 3; }

// r and x do not overlap. Words to be packed must be below 2^48: what is above would go to the next ones.
void pack(std::uint64_t* r, const std::uint64_t* x, std::size_t n);
void unpack(std::uint64_t* r, const std::uint64_t* packed, std::size_t n);

inline const unsigned char* packed_at(const std::uint64_t* packed, std::size_t i) {
    return reinterpret_cast<const unsigned char*>(packed) + kPackedBytes * i;
}
inline std::uint64_t packed_word(const std::uint64_t* packed, std::size_t i) {
    std::uint64_t word = 0;
    std::memcpy(&word, packed_at(packed, i), kPackedBytes);
    return word;
}

}  // namespace cipherblas
