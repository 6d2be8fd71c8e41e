// The kernel table of each instruction set, without a check of the CPU.
#pragma once
#include "gemm/kernels.h"

namespace cipherblas::gemm {

const GemmKernels* scalar_table();
const GemmKernels* avx2_table();
const GemmKernels* avx512ifma_table();

// The byte kernels of that table, which are a file of their own.
void byte_tile(double* r, const std::int8_t* a, const std::uint8_t* b, std::size_t quads, double weight,
               bool accumulate);
void byte_sums(std::int32_t* r, const std::int8_t* a, const std::uint8_t* b, std::size_t quads,
               bool accumulate);
void byte_fold(std::uint64_t* c, std::ptrdiff_t row_stride, const std::int32_t* sums, std::size_t rows,
               std::size_t cols, const OperandModulus& m, int weight);
void byte_pack(std::uint8_t* packed, std::size_t pitch, const std::uint64_t* const* lines, std::size_t words,
               int planes, const std::uint8_t* moduli);

}  // namespace cipherblas::gemm
