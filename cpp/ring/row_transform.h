// Evaluation of a polynomial whose coefficients are polynomials, at the odd powers of Y = X^(n/d): the
// transform of ciphertext matrix transposition. Its twiddle factors are monomials, so that it takes additions
// alone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "arith/modulus.h"

namespace cipherblas {

// d rows of n residues modulo X^n + 1.
struct RowArray {
    const std::uint64_t* in = nullptr;  // rows, `in_stride` words apart
    std::size_t in_rows = 0;            // at most d; those that are missing are zero
    std::ptrdiff_t in_stride = 0;
    std::uint64_t* out = nullptr;  // d rows, n words apart; may be `in`
    std::size_t n = 0;             // a power of two, max(d, 8) at least
    const Modulus* modulus = nullptr;
};

// The exponent u of the power that position `position` of the transform holds, 1 + 2 bitrev(position), and
// back.
std::uint64_t row_exponent(std::size_t position, int log_rows);
std::size_t row_position(std::uint64_t exponent, int log_rows);

// A layer doubles the words at most, so that sums of 2^13 residues below 2^50 need no reduction: a word, taken as
// signed, stands for its residue. Of more layers, some are followed by reductions.
inline constexpr int kUnreducedLayers = 63 - kMaxModulusBits;

// Layers of a pass over all rows, at most: the rows of a group go through them in the second-level cache.
inline constexpr int kPassLayers = 4;

// log_rows: log2(d), at least 1.
// Forward: out_p = sum_i Y^(u(p) i) in_i. Inverse: d times the inverse of that, out_i = sum_p Y^(-u(p) i)
// in_p. The input is in [0, q); the output too if `reduces`, otherwise signed words below 2^63.
// unreduced: layers between reductions, at least kPassLayers.
void transform_rows(std::span<const RowArray> arrays, int log_rows, bool inverse, bool reduces,
                    int unreduced = kUnreducedLayers);

// The same on several machines: log_parts of the layers on some classes of rows, the others on some blocks. The rows i
// of class i mod d/C, C = 2^log_parts, meet in the first layers of the forward transform (the last of the inverse);
// block i / (d/C) is where the others stay. Rows are in place, out == in; of the forward transform's classes in [0, q),
// else signed words. Missing rows (in_rows) are no part of it. What one of them hands to the other is reduced where d is
// above 2^unreduced.
//
// transform_classes: row t * count + j of an array is row t * d/C + first + j of the transform, j < count.
// transform_blocks: row b * d/C + j is row blocks[b] * d/C + j.
void transform_classes(std::span<const RowArray> arrays, int log_rows, int log_parts, std::size_t first,
                       std::size_t count, bool inverse, int unreduced = kUnreducedLayers);
void transform_blocks(std::span<const RowArray> arrays, int log_rows, int log_parts,
                      std::span<const std::size_t> blocks, bool inverse, int unreduced = kUnreducedLayers);

}  // namespace cipherblas
