// Modular products by a float64 BLAS.
#pragma once
#include "gemm/kernels.h"
#include "gemm/splitting.h"
#include "gemm/views.h"

namespace cipherblas::gemm {

// What is converted at a time: (4096 rows + 2048 columns) x 4096 doubles, once per digit, is at most 576 MiB at three
// digits of each; two digits of one and three of the other, the most that a modulus of 50 bits takes, stay below 450 MiB.
inline constexpr std::size_t kConvertedDepth = 4096;
inline constexpr std::size_t kConvertedRows = 4096;
inline constexpr std::size_t kConvertedCols = 2048;

// 2^shift mod q, centred: the weight of a digit.
std::int64_t weight_of(int shift, const Modulus& m);

// c = a b mod q, or that added to c, from float64 products of the digits of a and b: sums of `splitting.depth` products
// are reduced modulo q and added up there. Exact if the splitting is; residues are centred first. Integers of a are below
// 2^50 in absolute value, those of one sum below 2^50 q. Extra memory: at most 512 MiB.
void float_gemm(const MatrixView& a, const MatrixView& b, const MatrixSpan& c, const Modulus& m,
                const Splitting& splitting, bool accumulate);

}  // namespace cipherblas::gemm
