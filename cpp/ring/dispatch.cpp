#include <atomic>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "arith/cpu.h"
#include "ring/kernels.h"
#include "ring/kernels/counting.h"
#include "ring/kernels/tables.h"

namespace cipherblas {

namespace {

struct Entry {
    const char* name;
    Isa isa;
    const Kernels* (*table)();
};

// Best first.
constexpr Entry kEntries[] = {
#if defined(CIPHERBLAS_X86_KERNELS)
    {"avx512ifma", Isa::kAvx512Ifma, avx512ifma_table},
    {"avx2", Isa::kAvx2, avx2_table},
#endif
    {"scalar", Isa::kScalar, scalar_table},
};

const Kernels& select() {
    const char* forced = std::getenv("CIPHERBLAS_ISA");
    if (forced != nullptr && *forced != '\0') {
        if (const Kernels* table = kernels_by_name(forced)) return *table;
        std::string usable;
        for (const Entry& entry : kEntries) {
            if (kernels_by_name(entry.name) != nullptr)
                usable += std::string(usable.empty() ? "" : ", ") + entry.name;
        }
        throw std::runtime_error("CIPHERBLAS_ISA: expected one of " + usable + " on this CPU, got " + forced);
    }
    for (const Entry& entry : kEntries) {
        if (const Kernels* table = kernels_by_name(entry.name)) return *table;
    }
    throw std::runtime_error("no kernel table in this build");
}

const Kernels& selected() {
    static const Kernels& table = select();
    return table;
}

std::atomic<const Kernels*> current{nullptr};  // null: not selected yet

}  // namespace

const Kernels* kernels_by_name(const char* name) {
    for (const Entry& entry : kEntries) {
        if (std::strcmp(entry.name, name) == 0) return cpu_supports(entry.isa) ? entry.table() : nullptr;
    }
    return nullptr;
}

const Kernels& kernels() {
    if (const Kernels* table = current.load(std::memory_order_acquire)) return *table;
    const Kernels* none = nullptr;  // unless counting began meanwhile
    const Kernels& table = selected();
    return current.compare_exchange_strong(none, &table) ? table : *none;
}

void count_kernels(bool on) {
    if (on) clear_kernel_counts();
    current = on ? counting_table(selected()) : &selected();
}

}  // namespace cipherblas
