// Maps bytes of a cryptographic stream to the distributions of RLWE. The bytes come from outside.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "arith/modulus.h"

namespace cipherblas {

// Extra words per limb for rejections in sample_uniform, extra bytes in sample_ternary.
inline constexpr std::size_t kUniformSpareWords = 128;
inline constexpr std::size_t kTernarySpareBytes = 256;
inline constexpr double kNoiseSigma = 3.2;
inline constexpr int kLargestNoise =
    29;  // 9.06 sigma: values beyond have probability 2^-65.3, and do not occur

// Residues modulo q from random words, so many at a time: a word below floor(2^64 / q) q gives word mod q, others are
// skipped.
class UniformResidues {
  public:
    UniformResidues(const std::uint64_t* words, std::size_t count, const Modulus& m)
        : words_(words), left_(count), modulus_(m) {}

    // Throws std::runtime_error when the words do not suffice.
    void next(std::uint64_t* out, std::size_t n);

  private:
    const std::uint64_t* words_;
    std::size_t left_;
    const Modulus& modulus_;
};

// n of them from n + 128 words, which do not suffice with a probability below 2^-300.
void sample_uniform(std::uint64_t* out, const std::uint64_t* words, std::size_t n, const Modulus& m);

// n values of {-1, 0, 1} from `count` bytes: a byte below 255 gives byte mod 3 - 1, others are skipped.
// Throws std::runtime_error when the bytes do not suffice.
void sample_ternary(std::int64_t* out, const std::uint8_t* bytes, std::size_t count, std::size_t n);

// n values of the discrete Gaussian with sigma 3.2 from n words: one bit of sign and 63 bits that are compared with
// every entry of the cumulative table, so that the time does not depend on the value.
void sample_gaussian(std::int64_t* out, const std::uint64_t* words, std::size_t n);

// A word that looks random for every word: the finaliser of splitmix64.
inline std::uint64_t scramble(std::uint64_t word) {
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
    return word ^ (word >> 31);
}

// Number i of many is rounded with the word dither + i * kDitherStep: with scramble, splitmix64 from the state dither on.
inline constexpr std::uint64_t kDitherStep = 0x9e3779b97f4a7c15u;

// An integer next to x, the upper one with the probability of x's fraction: equal numbers have unlike errors, so that
// those of many add up in squares. Encryption hides them: the words need not be cryptographic, but none may depend on the
// words that errors are made of, for messages would then depend on their errors.
inline double round_by_chance(double x, std::uint64_t word) {
    return std::floor(x + static_cast<double>(scramble(word) >> 11) * 0x1p-53);
}

}  // namespace cipherblas
