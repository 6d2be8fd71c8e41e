// The automorphism X -> X^g on evaluation-form limbs (bit-reversed order) is a permutation of positions.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace cipherblas {

struct Permutation {
    std::uint64_t galois = 1;          // odd, below 2N
    std::vector<std::uint32_t> index;  // r[i] = a[index[i]]
    // The same by blocks of 8: block b of the result is block (blocks[b] >> 3) of the source with its lanes
    // rearranged by lanes[blocks[b] & 7]; bit-reversed order maps aligned blocks of 8 to aligned blocks of 8.
    std::vector<std::uint32_t> blocks;
    alignas(64) std::array<std::array<std::uint64_t, 8>, 8> lanes{};

    // Throws std::invalid_argument when galois is even.
    Permutation(std::uint64_t galois, int log_n);
};

// 5^step mod 2N: the Galois element that rotates the slots left by step (negative: right).
std::uint64_t galois_element(std::int64_t step, int log_n);

// out = x(X^galois) by coefficients, for n = 2^log_n signed words x (modulo 2^64); galois is odd, of any size.
// out and x do not overlap.
void substitute_power(std::uint64_t* out, const std::uint64_t* x, std::uint64_t galois, int log_n);

// The inverse of an odd number modulo mask + 1, a power of two.
std::uint64_t inverse_mod_power_of_two(std::uint64_t odd, std::uint64_t mask);

}  // namespace cipherblas
