#include <string_view>

#include "gemm/kernels/tables.h"
#include "ring/kernels.h"

namespace cipherblas::gemm {

const GemmKernels& gemm_kernels() {
#if defined(CIPHERBLAS_X86_KERNELS)
    static const GemmKernels& table = *[]() -> const GemmKernels* {
        const std::string_view name = kernels().name;
        if (name == "avx512ifma") return avx512ifma_table();
        if (name == "avx2") return avx2_table();
        return scalar_table();
    }();
    return table;
#else
    return *scalar_table();
#endif
}

}  // namespace cipherblas::gemm
