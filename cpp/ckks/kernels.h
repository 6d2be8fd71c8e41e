// The table of the transforms of the encoder: one table per instruction set, as in ring/kernels.h. The same additions and
// multiplications in the same order, none of them fused: equal bit for bit.
#pragma once
#include <complex>
#include <cstddef>
#include <cstdint>

#include "ring/samplers.h"

namespace cipherblas {

// What the transforms of S slots read.
struct EmbeddingTable {
    std::size_t slots;  // a power of two, 4 at least
    // Twiddles of the stage of length len at [len / 2, len).
    const double* cosine;
    const double* sine;
    const std::uint32_t* bit_reversal;
};

// Pointers need no alignment.
struct EmbeddingKernels {
    const char* name;  // that of the table of ring/kernels.h

    // coefficients[0 .. 2S) = factor times the inverse transform of re + i im, which it overwrites: first the real parts, then
    // the imaginary ones, rounded to the nearest integers, ties to even. With a dither other than 0 coefficient i is
    // rounded by chance (round_by_chance) with the word dither + i * kDitherStep. Whether all of them are finite and below 2^62;
    // if not, they are of no use.
    bool (*encode)(const EmbeddingTable& table, double* re, double* im, double factor, std::uint64_t dither,
                   std::int64_t* coefficients);
    // values = the transform of coefficients[0 .. S) + i coefficients[S .. 2S). re, im: room for S numbers each.
    void (*decode)(const EmbeddingTable& table, const double* coefficients, double* re, double* im,
                   std::complex<double>* values);
};

// The table that goes with kernels(), so that CIPHERBLAS_ISA forces both.
const EmbeddingKernels& embedding_kernels();

}  // namespace cipherblas
