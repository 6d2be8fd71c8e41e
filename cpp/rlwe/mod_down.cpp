#include "rlwe/mod_down.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "ring/kernels.h"
#include "ring/pool.h"
#include "ring/threads.h"

namespace cipherblas {
namespace {

// One dropped limb in a large ring: its coefficients and half a converted limb together stay in the core's own cache, beside
// what streams through it. That is worth making the first layer twice.
bool divides_in_halves(const Context& context, const BaseConversion& conversion, int kept_limbs) {
    constexpr std::size_t kLargeWords = std::size_t{1} << 16;
    std::vector<int> targets(static_cast<std::size_t>(kept_limbs));
    std::iota(targets.begin(), targets.end(), 0);
    return context.n() >= kLargeWords && conversion.converts_halves(targets.data(), kept_limbs);
}

// Row by row, the coefficients of each at source + row * n.
void divide_in_halves(const Context& context, const BaseConversion& conversion, const std::uint64_t* source,
                      int rows, int kept_limbs, bool bypass, const std::uint64_t* const* kept,
                      std::uint64_t* const* out) {
    const std::size_t n = context.n();
    const std::size_t limbs = static_cast<std::size_t>(kept_limbs);
    const int half_parts = kernels().ntt_parts(context.log_n()) / 2;
    const std::size_t part_words = n / static_cast<std::size_t>(2 * half_parts);
    const std::size_t tasks = static_cast<std::size_t>(rows) * limbs;
    const int threads = threads_for(tasks);
    const std::size_t room = n / 2 + part_words;
    const Buffer scratch = Buffer::of_words(static_cast<std::size_t>(threads) * room);
    parallel_for(tasks, threads, [&](std::size_t task, int thread) {
        const int limb = static_cast<int>(task % limbs);
        std::uint64_t* const converted = scratch.words() + static_cast<std::size_t>(thread) * room;
        std::uint64_t* const work = converted + n / 2;
        for (int half = 0; half < 2; ++half) {
            conversion.convert_half(converted, limb, source + task / limbs * n, half);
            for (int i = 0; i < half_parts; ++i) {
                const int part = half * half_parts + i;
                const std::size_t begin = static_cast<std::size_t>(part) * part_words;
                std::uint64_t* const result = out[task] + begin;
                const std::uint64_t* const addend = kept[task] + begin;
                const std::uint64_t* const words = converted + static_cast<std::size_t>(i) * part_words;
                kernels().ntt_part_add_mul_scalar(&result, &addend, &words, &work, 1,
                                                  conversion.inverse(limb), part, bypass, {},
                                                  context.table(limb));
            }
        }
    });
}

}  // namespace

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

DroppedRows::DroppedRows(const Context& context, const BaseConversion& conversion, std::size_t rows,
                         const std::uint64_t* const* dropped)
    : conversion_(&conversion),
      n_(context.n()),
      count_(static_cast<std::size_t>(conversion.count())),
      together_(!converts_one_by_one(n_, conversion.count())),
      counts_(conversion.count() > 1 && !together_),
      coefficients_(Buffer::of_words(rows * count_ * n_)),
      overflow_(counts_ ? Buffer::of_words(rows * n_) : Buffer()) {
    const std::size_t prepared = rows * count_;
    const int preparing = threads_for_work(prepared, prepared * context.transform_operations());
    const Buffer room = Buffer::of_words(static_cast<std::size_t>(preparing) * n_);
    parallel_for(prepared, preparing, [&](std::size_t task, int thread) {
        conversion.prepare(coefficients_.words() + task / count_ * count_ * n_,
                           static_cast<int>(task % count_), {dropped[task], nullptr, true}, together_,
                           room.words() + static_cast<std::size_t>(thread) * n_);
    });
    parallel_rows(counts_ ? rows : 0, n_, count_,
                  [&](std::size_t row, std::size_t offset, std::size_t length) {
                      conversion.overflow(overflow_.words() + row * n_ + offset, block(row), offset, length);
                  });
}

void DroppedRows::convert(std::size_t row, const std::vector<int>& limbs, std::uint64_t* const* out) const {
    conversion_->convert(out, limbs.data(), static_cast<int>(limbs.size()), block(row), together_,
                         overflow(row));
}

void mod_down(const Context& context, const BaseConversion& conversion, int rows, int kept_limbs,
              const std::uint64_t* const* dropped, const std::uint64_t* const* kept,
              std::uint64_t* const* out) {
    const Kernels& k = kernels();
    const std::size_t n = context.n();
    const DroppedRows negatives(context, conversion, static_cast<std::size_t>(rows), dropped);
    const std::size_t rows_count = static_cast<std::size_t>(rows);
    const bool bypass =
        out[0] != kept[0] && bypasses_caches(rows_count * static_cast<std::size_t>(kept_limbs) * n);
    if (divides_in_halves(context, conversion, kept_limbs)) {
        return divide_in_halves(context, conversion, negatives.block(0), rows, kept_limbs, bypass, kept, out);
    }
    const int group = limbs_per_group(n, kept_limbs, conversion.count());
    const std::size_t tasks = static_cast<std::size_t>((kept_limbs + group - 1) / group);
    const int part_count = k.ntt_parts(context.basis().log_n());
    const std::size_t part_words = n / static_cast<std::size_t>(part_count);
    const std::size_t row_words = static_cast<std::size_t>(group) * n;
    // A limb at a time is for the core's own cache, where a second row would not fit.
    const std::size_t rows_at_once = group == 1 ? 1 : rows_count;
    const int threads = threads_for_work(
        tasks, rows_count * static_cast<std::size_t>(kept_limbs) * context.transform_operations());
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
                conversion.convert(parts.data(), targets.data(), limbs, negatives.block(row),
                                   negatives.together(), negatives.overflow(row));
            }
            for (std::size_t t = 0; t < targets.size(); ++t) {
                for (int part = 0; part < part_count; ++part) {  // the rows together: they share the table
                    const std::size_t begin = static_cast<std::size_t>(part) * part_words;
                    std::vector<std::uint64_t*> results;
                    std::vector<const std::uint64_t*> addends, parts, next;
                    for (std::size_t row = first_row; row < first_row + rows_at_once; ++row) {
                        const std::size_t place =
                            row * static_cast<std::size_t>(kept_limbs) + static_cast<std::size_t>(targets[t]);
                        results.push_back(out[place] + begin);
                        addends.push_back(kept[place] + begin);
                        parts.push_back(converted + (row - first_row) * row_words + t * n + begin);
                        // Limbs that were converted together have left the inner caches.
                        if (limbs > 1 && part + 1 < part_count) next.push_back(parts.back() + part_words);
                    }
                    k.ntt_part_add_mul_scalar(results.data(), addends.data(), parts.data(), work.data(),
                                              rows_at_once, conversion.inverse(targets[t]), part, bypass,
                                              {next.data(), next.size()}, context.table(targets[t]));
                }
            }
        }
    });
}

}  // namespace cipherblas
