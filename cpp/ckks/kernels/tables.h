// The kernel table of each instruction set, without a check of the CPU.
#pragma once
#include "ckks/kernels.h"

namespace cipherblas {

const EmbeddingKernels* scalar_embedding();
const EmbeddingKernels* avx2_embedding();
const EmbeddingKernels* avx512ifma_embedding();

}  // namespace cipherblas
