// For any processor: conversions for the paths through a BLAS, and no tile of its own (see gemm/reference.h).
#include "gemm/kernels/conversions.h"
#include "gemm/kernels/tables.h"

namespace cipherblas::gemm {

const GemmKernels* scalar_table() {
    static const GemmKernels table = [] {
        GemmKernels found{};
        found.name = "scalar";
        found.to_double = to_double;
        found.split = split;
        found.reduce = reduce;
        return found;
    }();
    return &table;
}

}  // namespace cipherblas::gemm
