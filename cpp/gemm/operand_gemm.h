// Products modulo W, a product of odd moduli of a byte each, as fractions of W: what they are multiplied by the modulus that
// they are switched to.
//
// A residue x modulo W is its residues x_i modulo p_0, p_1, …: byte i % 8 of word i / 8. By the Chinese remainder theorem
// x / W is the sum of x_i v_i / p_i modulo 1, v_i the inverse of W / p_i modulo p_i: each modulus adds its own part, so that
// products modulo p_i, of bytes, are never put together.
#pragma once
#include <cstdint>
#include <vector>

#include "gemm/kernels.h"
#include "gemm/views.h"

namespace cipherblas::gemm {

inline constexpr std::size_t kModuliOfWord = 8;
inline constexpr std::size_t kMostOperandModuli = 16;
inline constexpr std::size_t kMostFractions = 2;
inline constexpr int kSecondFractionBits = 40;
// What is summed up before remainders are taken, from the first row on.
inline constexpr std::size_t kOperandDepth = 4096;
// Of so many products at most the second fractions stay below 2^63.
inline constexpr std::size_t kMostOperandDepth = std::size_t{1} << 24;
// What is packed at a time: at most 16 x (480 + 2048) x 4096 bytes.
inline constexpr std::size_t kOperandRows = 480;
inline constexpr std::size_t kOperandCols = 2048;

class OperandModuli {
  public:
    // Throws std::invalid_argument unless they are coprime odd numbers from 129 to 255, 1 to kMostOperandModuli of them.
    explicit OperandModuli(const std::vector<std::uint64_t>& moduli);

    std::size_t count() const { return moduli_.size(); }
    std::size_t words() const { return ceil_div(count(), kModuliOfWord); }
    std::size_t count_of(std::size_t word) const {
        return word + 1 < words() ? kModuliOfWord : count() - word * kModuliOfWord;
    }
    std::uint8_t operator[](std::size_t i) const { return moduli_[i]; }
    const std::uint8_t* of_word(std::size_t word) const { return moduli_.data() + word * kModuliOfWord; }
    // Weights for so many fractions: with one it is rounded to 2^-64, with two they are digits, the second one rounded to
    // 2^-104.
    std::vector<OperandModulus> weights(std::size_t fractions) const;

    // True if every byte of the words of place `word` is below its modulus, and those that have none are 0.
    bool all_below(std::size_t word, const MatrixView& view) const;

  private:
    std::vector<std::uint8_t> moduli_;
};

// The fractions (a b) / W modulo 1: c[0] in units of 2^-64, modulo 2^64, and with two of them the rest in units of 2^-104,
// c[1], signed. Words of a and b as matrices, words() of each; all of c have one shape. Each residue of a sum of
// kOperandDepth products is centred before it is weighted: results are the same on any machine, and off by no more than 64
// units for each modulus and such sum. c overlaps nothing. Throws std::invalid_argument for sums of more than
// kMostOperandDepth products.
void operand_gemm(const std::vector<MatrixView>& a, const std::vector<MatrixView>& b,
                  const OperandModuli& moduli, const std::vector<MatrixSpan>& c);

}  // namespace cipherblas::gemm
