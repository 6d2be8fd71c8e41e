// AVX2 and FMA: conversions for the paths through a BLAS; there is no 52-bit multiply-add for a tile.
#include "gemm/kernels/conversions.h"
#include "gemm/kernels/tables.h"

namespace cipherblas::gemm {

const GemmKernels* avx2_table() {
    static const GemmKernels table = [] {
        GemmKernels found{};
        found.name = "avx2";
        found.to_double = to_double;
        found.split = split;
        found.reduce = reduce;
        return found;
    }();
    return &table;
}

}  // namespace cipherblas::gemm
