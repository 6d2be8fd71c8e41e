#include "rlwe/row_elements.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ring/bit_reverse.h"
#include "ring/kernels.h"
#include "ring/pool.h"
#include "ring/threads.h"

namespace cipherblas {

void elements_of_rows(const Context& context, int limbs, std::size_t rows, std::size_t columns,
                      const RowsView& a, const RowsView& b, std::uint64_t* out) {
    const std::size_t n = context.n(), step = n / columns, count = static_cast<std::size_t>(limbs);
    const std::size_t tasks = rows * 2 * count;
    const int threads = threads_for_work(tasks, tasks * context.transform_operations());
    parallel_for(tasks, threads, [&](std::size_t task, int) {
        const std::size_t row = task / (2 * count);
        const int limb = static_cast<int>(task % count);
        const bool is_b = task / count % 2 == 0;
        const std::uint64_t* const from = (is_b ? b : a).row(limb, row);
        std::uint64_t* const to = out + task * n;
        if (!is_b || step == 1) {
            std::memcpy(to, from, n * sizeof(std::uint64_t));
        } else {
            std::fill_n(to, n, 0);
            for (std::size_t j = 0; j < columns; ++j) to[j * step] = from[j];
        }
        kernels().ntt(to, context.table(limb));
    });
}

void rows_of_elements(const Context& context, const std::vector<CiphertextView>& elements,
                      const ElementRows& shape, std::uint64_t* a, std::uint64_t* b) {
    const std::size_t n = context.n(), step = n / shape.columns;
    const int bits = std::countr_zero(step);
    const std::size_t limbs = static_cast<std::size_t>(elements.front().limbs);
    const std::size_t tasks = 2 * elements.size() * limbs;
    const int threads = threads_for_work(tasks, tasks * context.transform_operations());
    std::vector<Buffer> scratch;  // the coefficients, and their negatives
    for (int t = 0; t < threads; ++t) scratch.push_back(Buffer::of_words(2 * n));
    parallel_for(tasks, threads, [&](std::size_t task, int thread) {
        const std::size_t number = task / 2 % elements.size(), limb = task / 2 / elements.size();
        const int i = static_cast<int>(limb), component = static_cast<int>(task % 2);
        std::uint64_t* const x = scratch[static_cast<std::size_t>(thread)].words();
        std::memcpy(x, elements[number].limb(component, i), n * sizeof(std::uint64_t));
        kernels().intt(x, context.table(i));
        if (component == 1) kernels().neg(x + n, x, n, context.modulus(i));
        const std::size_t first = number * shape.held;
        const std::size_t held = std::min(shape.held, shape.rows - first);
        for (std::size_t row = 0; row < held; ++row) {
            const std::size_t place = limb * shape.rows + first + row;
            const std::size_t t = bit_reverse(static_cast<std::uint32_t>(row), bits);
            if (component == 1) {  // X^-t times a begins at its coefficient t
                std::memcpy(a + place * n, x + t, n * sizeof(std::uint64_t));
                continue;
            }
            std::uint64_t* const entries = b + place * shape.columns;
            for (std::size_t j = 0; j < shape.columns; ++j) entries[j] = x[j * step + t];
        }
    });
}

}  // namespace cipherblas
