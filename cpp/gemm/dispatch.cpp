#include <atomic>
#include <string_view>

#include "gemm/kernels/counting.h"
#include "gemm/kernels/tables.h"
#include "ring/kernels.h"

namespace cipherblas::gemm {
namespace {

const GemmKernels& selected() {
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

std::atomic<const GemmKernels*> counting{nullptr};  // null: nothing is counted

}  // namespace

const GemmKernels& gemm_kernels() {
    const GemmKernels* table = counting.load(std::memory_order_acquire);
    return table == nullptr ? selected() : *table;
}

void count_kernels(bool on) {
    if (on) clear_kernel_counts();
    counting = on ? counting_table(selected()) : nullptr;
    count_blas(on);
}

}  // namespace cipherblas::gemm
