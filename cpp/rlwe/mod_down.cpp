#include "rlwe/mod_down.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "ring/kernels.h"
#include "ring/pool.h"
#include "ring/threads.h"

namespace cipherblas {

int limbs_per_group(std::size_t n, int limbs, int sources) {
    constexpr int kGroup = 13;
    constexpr std::size_t kResidentWords = std::size_t{1} << 17;  // stay in the second-level cache
    if (limbs < 1 || static_cast<std::size_t>(sources) * n <= kResidentWords) return 1;
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
    const Buffer coefficients = Buffer::of_words(static_cast<std::size_t>(rows) * count * n);
    const Buffer overflow = Buffer::of_words(static_cast<std::size_t>(rows) * n);
    const auto sources = [&](std::size_t row, std::size_t offset) {
        std::array<const std::uint64_t*, BaseConversion::kMaxSources> y{};
        for (std::size_t i = 0; i < count; ++i) y[i] = coefficients.words() + (row * count + i) * n + offset;
        return y;
    };

    parallel_for(static_cast<std::size_t>(rows) * count, [&](std::size_t task) {
        const int i = static_cast<int>(task % count);
        std::uint64_t* const y = coefficients.words() + task * n;
        k.intt_scaled(y, dropped[task], conversion.digit_factor(i), context.table(conversion.source(i)));
    });
    parallel_rows(
        static_cast<std::size_t>(rows), n, [&](std::size_t row, std::size_t offset, std::size_t length) {
            conversion.overflow(overflow.words() + row * n + offset, sources(row, offset).data(), length);
        });

    const int group = limbs_per_group(n, rows * kept_limbs, conversion.count());
    const std::size_t groups = static_cast<std::size_t>((kept_limbs + group - 1) / group);
    const std::size_t rows_count = static_cast<std::size_t>(rows);
    const std::size_t tasks = rows_count * groups;
    const std::size_t scratch_words = static_cast<std::size_t>(group) * n;
    const int threads = threads_for(tasks);
    const Buffer scratch = Buffer::of_words(static_cast<std::size_t>(threads) * scratch_words);
    parallel_for(tasks, threads, [&](std::size_t task, int thread) {
        const std::size_t row = task % rows_count;  // all rows of a limb in turn: they share its NTT table
        const int first = static_cast<int>(task / rows_count) * group;
        const int limbs = first + group <= kept_limbs ? group : kept_limbs - first;
        std::vector<int> targets(static_cast<std::size_t>(limbs));
        std::vector<std::uint64_t*> converted;
        std::iota(targets.begin(), targets.end(), first);
        for (int t = 0; t < limbs; ++t) {
            converted.push_back(scratch.words() + static_cast<std::size_t>(thread) * scratch_words +
                                static_cast<std::size_t>(t) * n);
        }
        conversion.convert(converted.data(), targets.data(), limbs, sources(row, 0).data(),
                           overflow.words() + row * n, n);
        for (int t = 0; t < limbs; ++t) {
            const int limb = first + t;
            const std::size_t place =
                row * static_cast<std::size_t>(kept_limbs) + static_cast<std::size_t>(limb);
            k.ntt(converted[static_cast<std::size_t>(t)], context.table(limb));
            k.sub_mul_scalar(out[place], kept[place], converted[static_cast<std::size_t>(t)],
                             conversion.inverse(limb), n, context.modulus(limb));
        }
    });
}

}  // namespace cipherblas
