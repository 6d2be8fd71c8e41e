// For any processor: conversions for the paths through a BLAS, and no tile of its own (see gemm/reference.h).
#include "gemm/kernels/conversions.h"
#include "gemm/kernels/tables.h"

namespace cipherblas::gemm {

const GemmKernels* scalar_table() {
    static const GemmKernels table = {"scalar",  nullptr, nullptr, nullptr, nullptr, nullptr,
                                      to_double, split,   reduce,  nullptr, nullptr};
    return &table;
}

}  // namespace cipherblas::gemm
