// Operands of products of two encrypted matrices, rows modulo W, the product of moduli of their own (gemm/operand_gemm.h):
// how they are encrypted, and multiplied and switched to Q.
//
// Arrays are [word][row][column]: residues are bytes of words.
#pragma once
#include <cstdint>
#include <vector>

#include "gemm/operand_gemm.h"
#include "rlwe/coefficient_rows.h"
#include "rlwe/context.h"

namespace cipherblas {

// Residues modulo all moduli from a fraction of 128 bits each, two random words: no more than 2^-64 from uniform together
// while W is below 2^64 for each word of residues.
void uniform_operands(const std::uint64_t* random, std::size_t count, const gemm::OperandModuli& moduli,
                      std::size_t word, std::uint64_t* out);

// As encrypt_rows, modulo W: a s by transforms modulo the largest prime of the basis, the position of which is
// largest_prime; messages below 2^61. a: [word][row][N].
void encrypt_operand_rows(const Context& context, const RowLayout& layout, const SecretsView& secrets,
                          const std::uint64_t* a, const std::uint64_t* noise_words,
                          const RowMessages& messages, const gemm::OperandModuli& moduli, std::uint64_t* b);
int largest_prime(const Context& context);

// Residue i of an entry is m f_i + e g_i, of a message m below 2^61 in absolute value and an error e: those of integers
// modulo t are t^-1 m + e, or m + t e.
struct IntegerMessages {
    const std::int64_t* matrix;           // [rows][width]
    const std::int64_t* message_factors;  // f_i and g_i, residues modulo each modulus
    const std::int64_t* error_factors;
};
void encrypt_operand_integers(const Context& context, const RowLayout& layout, const SecretsView& secrets,
                              const std::uint64_t* a, const std::uint64_t* noise_words,
                              const IntegerMessages& messages, const gemm::OperandModuli& moduli,
                              std::uint64_t* b);

// The most limbs of Q that products can be switched to.
int most_switched_limbs(const Context& context);

// x y Q / W modulo Q, rounded, Q the product of the first limbs, at most most_switched_limbs: words of x
// and y as matrices. Off by no more than 1/2 and what the rounding of weights adds (gemm/operand_gemm.h): 2^-4 for 16 moduli,
// sums of kOperandDepth products, and a prime below 2^50 or two of 90 bits. out: [limb][row][column].
void multiply_operands(const Context& context, const std::vector<gemm::MatrixView>& x,
                       const std::vector<gemm::MatrixView>& y, const gemm::OperandModuli& moduli, int limbs,
                       std::uint64_t* out);

// The same of the transpose of x and x: the two halves of the columns with themselves, and one with the other, which stands
// there twice, down to at most `least` columns.
void gram_operands(const Context& context, const std::vector<gemm::MatrixView>& x,
                   const gemm::OperandModuli& moduli, int limbs, std::size_t least, std::uint64_t* out);

}  // namespace cipherblas
