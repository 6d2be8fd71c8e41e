// The kernel table of each instruction set, without a check of the CPU. A build for x86-64 defines
// CIPHERBLAS_X86_KERNELS and has them all; any other build has the scalar one alone.
#pragma once
#include "ring/kernels.h"

namespace cipherblas {

const Kernels* scalar_table();
const Kernels* avx2_table();
const Kernels* avx512ifma_table();

}  // namespace cipherblas
