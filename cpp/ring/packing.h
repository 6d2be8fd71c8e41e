// Words below 2^50 in fewer bits each: what a computation streams from memory, it streams in about that share of the time.
// Keys are kept in as few of kPackedBits a word as their prime has, one after the other; clear factors in 32 bits a word modulo
// primes below 2^32.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cipherblas {

inline constexpr int kPackedBits[] = {32, 40, 48, 50};

// How words below 2^bits, at most 2^50, are packed.
constexpr int packed_bits(int bits) {
    int packed = 0;
    for (const int one : kPackedBits) packed = packed < bits ? one : packed;
    return packed;
}

// The room of n packed words, n a multiple of 4, in words.
constexpr std::size_t packed_words(std::size_t n, int bits) {
    return (n * static_cast<std::size_t>(bits) + 63) / 64;
}

// bits: one of kPackedBits. r and x do not overlap. Words to be packed must be below 2^bits: what is above would go to
// the next ones.
void pack(std::uint64_t* r, const std::uint64_t* x, std::size_t n, int bits);
void unpack(std::uint64_t* r, const std::uint64_t* packed, std::size_t n, int bits);

// Where word i begins, but for some bits if i is no multiple of 4.
inline const unsigned char* packed_at(const std::uint64_t* packed, std::size_t i, int bits) {
    return reinterpret_cast<const unsigned char*>(packed) + i * static_cast<std::size_t>(bits) / 8;
}
inline std::uint64_t packed_word(const std::uint64_t* packed, std::size_t i, int bits) {
    std::uint64_t word = 0;  // of the bytes in which the bits are
    std::memcpy(&word, packed_at(packed, i, bits), static_cast<std::size_t>(bits + 7) / 8);
    return word >> i * static_cast<std::size_t>(bits) % 8 & ((std::uint64_t{1} << bits) - 1);
}

inline constexpr int kHalfBits = 32;

// Halves of 64 bits that a residue of a clear factor takes, for a prime of so many bits.
constexpr std::size_t halves_of(int bits) { return bits <= kHalfBits ? 1 : 2; }

// n words as residues of a factor: integers of 32 or 64 bits.
void write_factor(void* r, const std::uint64_t* x, std::size_t n, int bits);

}  // namespace cipherblas
