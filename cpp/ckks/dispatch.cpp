#include <string_view>

#include "ckks/kernels/tables.h"
#include "ring/kernels.h"

namespace cipherblas {

const EmbeddingKernels& embedding_kernels() {
#if defined(CIPHERBLAS_X86_KERNELS)
    static const EmbeddingKernels& table = *[]() -> const EmbeddingKernels* {
        const std::string_view name = kernels().name;
        if (name == "avx512ifma") return avx512ifma_embedding();
        if (name == "avx2") return avx2_embedding();
        return scalar_embedding();
    }();
    return table;
#else
    return *scalar_embedding();
#endif
}

}  // namespace cipherblas
