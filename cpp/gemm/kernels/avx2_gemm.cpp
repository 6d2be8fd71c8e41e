// AVX2 and FMA: conversions for the paths through a BLAS; there is no 52-bit multiply-add for a tile.
#include "gemm/kernels/conversions.h"
#include "gemm/kernels/tables.h"

namespace cipherblas::gemm {

const GemmKernels* avx2_table() {
    static const GemmKernels table = {"avx2",    nullptr, nullptr, nullptr, nullptr, nullptr,
                                      to_double, split,   reduce,  nullptr, nullptr};
    return &table;
}

}  // namespace cipherblas::gemm
