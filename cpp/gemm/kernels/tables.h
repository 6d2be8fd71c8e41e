// The kernel table of each instruction set, without a check of the CPU.
#pragma once
#include "gemm/kernels.h"

namespace cipherblas::gemm {

const GemmKernels* scalar_table();
const GemmKernels* avx2_table();
const GemmKernels* avx512ifma_table();

}  // namespace cipherblas::gemm
