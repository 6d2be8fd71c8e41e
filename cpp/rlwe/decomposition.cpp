#include "rlwe/decomposition.h"

#include <array>

#include "ring/threads.h"
#include "rlwe/mod_down.h"

namespace cipherblas {

Decomposition::Decomposition(const Context& context, const PolynomialView& x, int limbs)
    : context_(&context), x_(x), limbs_(limbs), digits_(context.digits(limbs)) {
    const std::size_t n = context.n();
    y_ = Buffer::of_words(static_cast<std::size_t>(limbs) * n);
    for (int d = 0; d < digits_; ++d) {
        const int begin = context.digit_begin(d);
        conversions_.push_back(&context.conversion(begin, context.digit_end(d, limbs) - begin, false));
    }
    const Kernels& k = kernels();
    parallel_for(static_cast<std::size_t>(limbs), [&](std::size_t i) {
        const int limb = static_cast<int>(i);
        const int digit = limb / context.alpha();
        const BaseConversion& conversion = *conversions_[static_cast<std::size_t>(digit)];
        std::uint64_t* const y = y_.words() + i * n;
        k.intt_scaled(y, x_.limb(limb), conversion.digit_factor(limb - context.digit_begin(digit)),
                      context.table(limb));
    });
    if (context.alpha() == 1 || !converts_one_by_one(n, context.alpha())) return;
    overflow_ = Buffer::of_words(static_cast<std::size_t>(digits_) * n);
    parallel_rows(static_cast<std::size_t>(digits_), n,
                  [&](std::size_t d, std::size_t offset, std::size_t count) {
                      const BaseConversion& conversion = *conversions_[d];
                      std::array<const std::uint64_t*, BaseConversion::kMaxSources> sources{};
                      for (int i = 0; i < conversion.count(); ++i) {
                          sources[static_cast<std::size_t>(i)] =
                              y_.words() + static_cast<std::size_t>(conversion.source(i)) * n + offset;
                      }
                      conversion.overflow(overflow_.words() + d * n + offset, sources.data(), count);
                  });
}

void Decomposition::convert(const int* targets, int count, std::uint64_t* scratch) const {
    const std::size_t n = context_->n();
    std::vector<int> converted;
    std::vector<std::uint64_t*> out;
    for (int d = 0; d < digits_; ++d) {
        converted.clear();
        out.clear();
        for (int t = 0; t < count; ++t) {
            if (owns(d, targets[t])) continue;
            converted.push_back(targets[t]);
            out.push_back(scratch + (static_cast<std::size_t>(t) * static_cast<std::size_t>(digits_) +
                                     static_cast<std::size_t>(d)) *
                                        n);
        }
        if (converted.empty()) continue;
        const BaseConversion& conversion = *conversions_[static_cast<std::size_t>(d)];
        std::array<const std::uint64_t*, BaseConversion::kMaxSources> sources{};
        for (int i = 0; i < conversion.count(); ++i) {
            sources[static_cast<std::size_t>(i)] =
                y_.words() + static_cast<std::size_t>(conversion.source(i)) * n;
        }
        conversion.convert(out.data(), converted.data(), static_cast<int>(converted.size()), sources.data(),
                           overflow_.words() == nullptr
                               ? nullptr
                               : overflow_.words() + static_cast<std::size_t>(d) * n);
    }
}

void Decomposition::locate(int target, std::uint64_t* scratch, const std::uint64_t** digits) const {
    for (int d = 0; d < digits_; ++d) {
        digits[d] = owns(d, target) ? x_.limb(target) : scratch + static_cast<std::size_t>(d) * context_->n();
    }
}

void Decomposition::transform(int target, int part, const Upcoming& upcoming, std::uint64_t* scratch) const {
    const std::size_t n = context_->n();
    const std::size_t parts = static_cast<std::size_t>(kernels().ntt_parts(context_->basis().log_n()));
    std::uint64_t* const first = scratch + static_cast<std::size_t>(part) * (n / parts);
    std::vector<std::uint64_t*> converted;
    for (int d = 0; d < digits_; ++d) {
        if (!owns(d, target)) converted.push_back(first + static_cast<std::size_t>(d) * n);
    }
    kernels().ntt_part(converted.data(), converted.size(), part, upcoming, context_->table(target));
}

}  // namespace cipherblas
