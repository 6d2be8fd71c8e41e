// What ring/kernels/counting.h does, for the kernels of the matrix products and the calls of the BLAS.
#pragma once
#include "ring/kernels/counting.h"

namespace cipherblas::gemm {

void count_kernels(bool on);
KernelCounts kernel_counts();

// Of `count_kernels`.
struct GemmKernels;
const GemmKernels* counting_table(const GemmKernels& inner);
void clear_kernel_counts();
void count_blas(bool on);

}  // namespace cipherblas::gemm
