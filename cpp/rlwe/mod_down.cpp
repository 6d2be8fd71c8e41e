#include "rlwe/mod_down.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "ring/kernels.h"
#include "ring/pool.h"
#include "ring/threads.h"

namespace cipherblas {

bool converts_one_by_one(std::size_t n, int sources) {
    constexpr std::size_t kResidentWords = std::size_t{1} << 17;  // stay in the second-level cache
    return static_cast<std::size_t>(sources) * n <= kResidentWords;
}

int limbs_per_group(std::size_t n, int limbs, int sources) {
    constexpr int kGroup = 26;
    if (limbs < 1 || converts_one_by_one(n, sources)) return 1;
    const int threads = thread_count();
    const int groups = std::max((limbs + kGroup - 1) / kGroup, std::min(threads, limbs));
    return (limbs + groups - 1) / groups;
}

void mod_down(const Context& context, const BaseConversion& conversion, int rows, int kept_limbs,
              const std::uint64_t* const* dropped, const std::uint64_t* const* kept,
              std::uint64_t* const* out) {
    const Kernels& k = kernels();
    const std::size_t n = context.n();
    const std::size_t count = static_cast<std::size_t>(conversion.count());
    const bool together = !converts_one_by_one(n, conversion.count());
    const bool counts = conversion.count() > 1 && !together;
    const Buffer coefficients = Buffer::of_words(static_cast<std::size_t>(rows) * count * n);
    const Buffer overflow = counts ? Buffer::of_words(static_cast<std::size_t>(rows) * n) : Buffer();
    const auto block = [&](std::size_t row) { return coefficients.words() + row * count * n; };

    const std::size_t prepared = static_cast<std::size_t>(rows) * count;
    const int preparing = threads_for(prepared);
    const Buffer room = Buffer::of_words(static_cast<std::size_t>(preparing) * n);
    parallel_for(prepared, preparing, [&](std::size_t task, int thread) {
        conversion.prepare(block(task / count), static_cast<int>(task % count), {dropped[task]}, together,
                           room.words() + static_cast<std::size_t>(thread) * n);
    });
    parallel_rows(counts ? static_cast<std::size_t>(rows) : 0, n,
                  [&](std::size_t row, std::size_t offset, std::size_t length) {
                      conversion.overflow(overflow.words() + row * n + offset, block(row), offset, length);
                  });

    const int group = limbs_per_group(n, kept_limbs, conversion.count());
    const std::size_t tasks = static_cast<std::size_t>((kept_limbs + group - 1) / group);
    const std::size_t rows_count = static_cast<std::size_t>(rows);
    const bool bypass =
        out[0] != kept[0] && bypasses_caches(rows_count * static_cast<std::size_t>(kept_limbs) * n);
    const int part_count = k.ntt_parts(context.basis().log_n());
    const std::size_t part_words = n / static_cast<std::size_t>(part_count);
    const std::size_t row_words = static_cast<std::size_t>(group) * n;
    // A limb at a time is for the core's own cache, where a second row would not fit.
    const std::size_t rows_at_once = group == 1 ? 1 : rows_count;
    const int threads = threads_for(tasks);
    const Buffer scratch = Buffer::of_words(static_cast<std::size_t>(threads) * rows_at_once * row_words);
    const Buffer part_room = Buffer::of_words(static_cast<std::size_t>(threads) * rows_at_once * part_words);
    parallel_for(tasks, threads, [&](std::size_t task, int thread) {
        const int first = static_cast<int>(task) * group;
        const int limbs = first + group <= kept_limbs ? group : kept_limbs - first;
        std::uint64_t* const converted =
            scratch.words() + static_cast<std::size_t>(thread) * rows_at_once * row_words;
        std::vector<std::uint64_t*> work;
        for (std::size_t row = 0; row < rows_at_once; ++row) {
            work.push_back(part_room.words() +
                           (static_cast<std::size_t>(thread) * rows_at_once + row) * part_words);
        }
        std::vector<int> targets(static_cast<std::size_t>(limbs));
        std::iota(targets.begin(), targets.end(), first);
        for (std::size_t first_row = 0; first_row < rows_count; first_row += rows_at_once) {
            for (std::size_t row = first_row; row < first_row + rows_at_once; ++row) {
                std::vector<std::uint64_t*> parts;
                for (std::size_t t = 0; t < targets.size(); ++t)
                    parts.push_back(converted + (row - first_row) * row_words + t * n);
                conversion.convert(parts.data(), targets.data(), limbs, block(row), together,
                                   counts ? overflow.words() + row * n : nullptr);
            }
            for (std::size_t t = 0; t < targets.size(); ++t) {
                for (int part = 0; part < part_count; ++part) {  // the rows together: they share the table
                    const std::size_t begin = static_cast<std::size_t>(part) * part_words;
                    std::vector<std::uint64_t*> results;
                    std::vector<const std::uint64_t*> minuends, parts, next;
                    for (std::size_t row = first_row; row < first_row + rows_at_once; ++row) {
                        const std::size_t place =
                            row * static_cast<std::size_t>(kept_limbs) + static_cast<std::size_t>(targets[t]);
                        results.push_back(out[place] + begin);
                        minuends.push_back(kept[place] + begin);
                        parts.push_back(converted + (row - first_row) * row_words + t * n + begin);
                        // Limbs that were converted together have left the inner caches.
                        if (limbs > 1 && part + 1 < part_count) next.push_back(parts.back() + part_words);
                    }
                    k.ntt_part_sub_mul_scalar(results.data(), minuends.data(), parts.data(), work.data(),
                                              rows_at_once, conversion.inverse(targets[t]), part, bypass,
                                              {next.data(), next.size()}, context.table(targets[t]));
                }
            }
        }
    });
}

}  // namespace cipherblas
