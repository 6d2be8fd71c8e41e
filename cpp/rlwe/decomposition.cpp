#include "rlwe/decomposition.h"

#include "ring/threads.h"
#include "rlwe/mod_down.h"

namespace cipherblas {

Decomposition::Decomposition(const Context& context, const SwitchedPolynomial& x, int limbs)
    : context_(&context), x_(x), limbs_(limbs), digits_(context.digits(limbs)) {
    const std::size_t n = context.n();
    y_ = Buffer::of_words(static_cast<std::size_t>(limbs) * n);
    for (int d = 0; d < digits_; ++d) {
        const int begin = context.digit_begin(d);
        conversions_.push_back(&context.conversion(begin, context.digit_end(d, limbs) - begin, false));
    }
    together_ = !converts_one_by_one(n, context.alpha());
    const std::size_t tasks = static_cast<std::size_t>(limbs);
    const int threads = threads_for_work(tasks, tasks * context.transform_operations());
    const Buffer scratch = Buffer::of_words(static_cast<std::size_t>(threads) * n);
    parallel_for(tasks, threads, [&](std::size_t i, int thread) {
        const int limb = static_cast<int>(i);
        const int digit = owner(limb);
        conversions_[static_cast<std::size_t>(digit)]->prepare(
            block(digit), limb - context.digit_begin(digit), x_.limb(limb), together_,
            scratch.words() + static_cast<std::size_t>(thread) * n);
    });
    if (context.alpha() == 1 || together_) return;
    overflow_ = Buffer::of_words(static_cast<std::size_t>(digits_) * n);
    parallel_rows(static_cast<std::size_t>(digits_), n, static_cast<std::size_t>(context.alpha()),
                  [&](std::size_t d, std::size_t offset, std::size_t count) {
                      conversions_[d]->overflow(overflow_.words() + d * n + offset,
                                                block(static_cast<int>(d)), offset, count);
                  });
}

void Decomposition::convert(const int* targets, int count, DigitRange range, std::uint64_t* scratch) const {
    const std::size_t n = context_->n();
    std::vector<int> converted;
    std::vector<std::uint64_t*> out;
    for (int d = range.begin; d < range.end; ++d) {
        converted.clear();
        out.clear();
        for (int t = 0; t < count; ++t) {
            if (owner(targets[t]) == d) continue;
            converted.push_back(targets[t]);
            out.push_back(scratch + static_cast<std::size_t>(t * range.size() + d - range.begin) * n);
        }
        if (converted.empty()) continue;
        const std::uint64_t* const v =
            overflow_.words() == nullptr ? nullptr : overflow_.words() + static_cast<std::size_t>(d) * n;
        conversions_[static_cast<std::size_t>(d)]->convert(
            out.data(), converted.data(), static_cast<int>(converted.size()), block(d), together_, v);
    }
}

void Decomposition::locate(int target, DigitRange range, std::uint64_t* scratch,
                           const std::uint64_t** digits) const {
    for (int d = 0; d < range.size(); ++d) digits[d] = scratch + static_cast<std::size_t>(d) * context_->n();
    if (range.has(owner(target))) {
        digits[owner(target) - range.begin] = x_.product == nullptr ? x_.view.limb(target) : nullptr;
    }
}

void Decomposition::transform(int target, int part, DigitRange range, const Upcoming& upcoming,
                              std::uint64_t* scratch, std::uint64_t* apart) const {
    const std::size_t n = context_->n();
    const std::size_t parts = static_cast<std::size_t>(kernels().ntt_parts(context_->basis().log_n()));
    std::uint64_t* const first = scratch + static_cast<std::size_t>(part) * (n / parts);
    std::vector<std::uint64_t*> converted, results;
    for (int d = range.begin; d < range.end; ++d) {
        if (owner(target) == d) continue;
        const std::size_t digit = static_cast<std::size_t>(d - range.begin);
        converted.push_back(first + digit * n);
        results.push_back(apart == nullptr ? converted.back() : apart + digit * (n / parts));
    }
    kernels().ntt_part(results.data(), converted.data(), converted.size(), part, true, upcoming,
                       context_->table(target));
}

}  // namespace cipherblas
