#include "rlwe/limb_worker.h"

#include <algorithm>

#include "ring/automorphism.h"

namespace cipherblas {
namespace {

constexpr std::size_t kInnerWords = std::size_t{1} << 16;  // of digits, what a core's own cache has room for
constexpr std::size_t kRangeWords = std::size_t{3} << 15;  // of digits that wait there for their sum

// How many digits of a limb are made at one time. All, unless they are for a single output, which adds up what it reads of
// them and so can take a few at a time: those then stay in the core's own cache.
int digits_at_once(const TransformPlan& plan, int capacity) {
    const int all = plan.context->digits(plan.limbs);
    const bool one = plan.outputs == 1 && capacity == 1 && !plan.terms.empty() &&
                     std::all_of(plan.terms.begin(), plan.terms.end(), [&](const PlannedTerm& term) {
                         return term.permutation == plan.terms.front().permutation && !term.encodes();
                     });
    const std::size_t sources = static_cast<std::size_t>(
        std::count_if(plan.sources.begin(), plan.sources.end(),
                      [](const PlannedSource& source) { return source.has_own_digits(); }));
    if (!one || sources == 0) return all;
    const std::size_t words = sources * plan.context->n();
    const std::size_t most = (kRangeWords + words / 2) / words;
    const int range = static_cast<int>(std::max<std::size_t>(most, 1));
    if (range >= all) return all;
    const int ranges = (all + range - 1) / range;
    return (all + ranges - 1) / ranges;
}

}  // namespace

LimbWorker::LimbWorker(const TransformPlan& plan, const Decompositions& decompositions, int capacity,
                       int dropped)
    : plan_(&plan),
      n_(plan.context->n()),
      capacity_(capacity),
      dropped_(dropped),
      parts_(kernels().ntt_parts(plan.context->basis().log_n())),
      part_words_(n_ / static_cast<std::size_t>(parts_)),
      range_(digits_at_once(plan, capacity)),
      limbs_(plan, decompositions, capacity, range_),
      apart_(plan),
      sum_(plan),
      low_(Buffer::of_words(2 * static_cast<std::size_t>(capacity - dropped) * n_)),
      low_part_(Buffer::of_words(2 * part_words_)),
      sums_(Buffer::workspace_of_words(2 * n_)) {}

void LimbWorker::convert(const int* limbs, int count) {
    if (!cuts()) limbs_.convert(limbs, count, 0);
}

template <typename Target, typename Finish>
void LimbWorker::run_parts(std::size_t output, int limb, int t, bool transforms, const Target& target,
                           const Finish& finish) {
    std::uint64_t* sum[2];
    if (!sum_.runs_by_parts()) {
        if (transforms) limbs_.transform(limb, t);
        target(0, sum);
        sum_.run(limbs_, output, limb, t, sum[0], sum[1]);
        for (int part = 0; part < parts_; ++part) {
            finish(part, sum);
            for (std::uint64_t*& words : sum) words += part_words_;
        }
        return;
    }
    sum_.start(limbs_, output, limb, t);
    if (cuts()) {
        run_ranges(limb, target, finish);
        return;
    }
    const bool together = transforms && has_one_permutation();
    // Another output would read the digits again.
    const bool apart = together && plan_->outputs == 1;
    if (transforms && !together) limbs_.transform(limb, t);
    for (int part = 0; part < parts_; ++part) {
        target(part, sum);
        if (together) {
            note_upcoming(part);
            const Upcoming upcoming{upcoming_.data(), upcoming_.size()};
            if (apart) {
                limbs_.transform(limb, t, source_part(part), upcoming, apart_);
            } else {
                limbs_.transform(limb, t, source_part(part), upcoming);
            }
        }
        const std::size_t begin = static_cast<std::size_t>(part) * part_words_;
        if (apart) {
            sum_.run_part(limb, begin, begin + part_words_, apart_, false, sum[0], sum[1]);
        } else {
            sum_.run_part(limb, begin, begin + part_words_, sum[0], sum[1]);
        }
        finish(part, sum);
    }
}

template <typename Target, typename Finish>
void LimbWorker::run_ranges(int limb, const Target& target, const Finish& finish) {
    const int all = limbs_.all().size();
    for (int first = 0; first < all; first += range_) {
        const DigitRange range{first, std::min(first + range_, all)};
        limbs_.convert(limb, range);
        for (int part = 0; part < parts_; ++part) {
            std::uint64_t* sum[2];
            target(part, sum);
            note_keys(part, range);
            limbs_.transform(limb, source_part(part), range, {upcoming_.data(), upcoming_.size()});
            limbs_.take(limb, source_part(part), range, apart_);
            const std::size_t begin = static_cast<std::size_t>(part) * part_words_;
            sum_.run_part(limb, begin, begin + part_words_, apart_, first > 0, sum[0], sum[1]);
            if (range.end == all) finish(part, sum);
        }
    }
}

void LimbWorker::sum(std::size_t output, int limb, int t, bool transforms, std::uint64_t* const* x) {
    run_parts(
        output, limb, t, transforms,
        [&](int part, std::uint64_t** sum) {
            for (int c = 0; c < 2; ++c) sum[c] = x[c] + static_cast<std::size_t>(part) * part_words_;
        },
        [](int, std::uint64_t* const*) {});
}

void LimbWorker::sum_and_divide(std::size_t output, int limb, int t, bool transforms, bool bypass,
                                std::uint64_t* const* x) {
    const auto finish = [&](int part, std::uint64_t* const* sum) {
        const std::size_t begin = static_cast<std::size_t>(part) * part_words_;
        std::uint64_t* const result[2] = {x[0] + begin, x[1] + begin};
        const std::uint64_t* const low_part[2] = {low(t, 0) + begin, low(t, 1) + begin};
        std::uint64_t* const work[2] = {low_part_.words(), low_part_.words() + part_words_};
        upcoming_.clear();
        for (std::size_t c = 0; part + 1 < parts_ && c < 2; ++c) {
            upcoming_.push_back(low_part[c] + part_words_);
        }
        kernels().ntt_part_add_mul_scalar(result, sum, low_part, work, 2, plan_->dropped->inverse(limb), part,
                                          bypass, {upcoming_.data(), upcoming_.size()},
                                          plan_->context->table(limb));
    };
    const std::size_t row = sum_.runs_by_parts() && !cuts() ? part_words_ : n_;
    const std::size_t step = cuts() ? part_words_ : 0;
    run_parts(
        output, limb, t, transforms,
        [&](int part, std::uint64_t** sum) {
            for (std::size_t c = 0; c < 2; ++c)
                sum[c] = sums_.words() + c * row + static_cast<std::size_t>(part) * step;
        },
        finish);
}

bool LimbWorker::has_one_permutation() const {
    const std::vector<RotationTerm>& terms = sum_.terms();
    return !terms.empty() && std::all_of(terms.begin(), terms.end(), [&](const RotationTerm& term) {
        return term.permutation == terms.front().permutation;
    });
}

// An automorphism maps parts to parts, the values being in bit-reversed order.
int LimbWorker::source_part(int part) const {
    const Permutation* const permutation = sum_.terms().front().permutation;
    if (permutation == nullptr) return part;
    const std::size_t first = static_cast<std::size_t>(part) * part_words_;
    return static_cast<int>(permutation->index[first] / part_words_);
}

// What the sum of a part reads of the keys, a quarter more or so of packed ones: fetched while its digits are made.
void LimbWorker::note_keys(int part, DigitRange range) {
    upcoming_.clear();
    for (const RotationTerm& term : sum_.terms()) {
        const std::size_t begin =
            static_cast<std::size_t>(part) * part_words_ * static_cast<std::size_t>(term.key_bits) / 64;
        for (int d = range.begin; d < range.end && term.digit_count > 0; ++d) {
            upcoming_.push_back(term.key0[d] + begin);
            upcoming_.push_back(term.key1[d] + begin);
        }
    }
}

// What the next part's transforms read. Keys and addends are fetched while the sum is made: with the transforms they cost
// more than they save.
void LimbWorker::note_upcoming(int part) {
    upcoming_.clear();
    std::size_t digits = 0;
    for (const RotationTerm& term : sum_.terms()) digits += static_cast<std::size_t>(term.digit_count);
    if (part + 1 == parts_ || 2 * digits * part_words_ > kInnerWords) return;
    const std::size_t next = static_cast<std::size_t>(source_part(part + 1)) * part_words_;
    for (const RotationTerm& term : sum_.terms()) {
        for (int j = 0; j < term.digit_count; ++j) {
            if (term.digits[j] != nullptr) upcoming_.push_back(term.digits[j] + next);
        }
    }
}

}  // namespace cipherblas
