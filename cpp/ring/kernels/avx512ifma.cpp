#include "ring/kernels/tables.h"

namespace cipherblas {

const Kernels* avx512ifma_table() { return nullptr; }

}  // namespace cipherblas
