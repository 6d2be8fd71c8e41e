#include "ring/kernels/tables.h"

namespace cipherblas {

const Kernels* avx2_table() { return nullptr; }

}  // namespace cipherblas
