#include "rlwe/extended_limbs.h"

#include <algorithm>

namespace cipherblas {
namespace {

constexpr std::size_t kEncodedTerms = 8;  // plaintexts given by coefficients that are in NTT form at one time

}  // namespace

Decompositions decompose(const TransformPlan& plan) {
    Decompositions decompositions(plan.sources.size());
    for (std::size_t s = 0; s < plan.sources.size(); ++s) {
        if (plan.sources[s].decomposed) {
            decompositions[s].emplace(*plan.context, plan.sources[s].switched, plan.limbs);
        }
    }
    return decompositions;
}

DigitParts::DigitParts(const TransformPlan& plan)
    : part_words_(plan.context->n() /
                  static_cast<std::size_t>(kernels().ntt_parts(plan.context->basis().log_n()))) {
    bool has_product = false;
    std::size_t digits = 0;
    for (const PlannedSource& source : plan.sources) {
        first_digit_.push_back(digits);
        if (source.decomposed) digits += static_cast<std::size_t>(plan.context->digits(plan.limbs));
        has_product = has_product || source.switched.product != nullptr;
    }
    digits_.resize(digits);
    words_ = Buffer::of_words((digits + (has_product ? 3 : 0)) * part_words_);
    for (std::size_t c = 0; has_product && c < 3; ++c)
        product_[c] = words_.words() + (digits + c) * part_words_;
}

RotationTerm DigitParts::at(const RotationTerm& term, int source, bool special) const {
    RotationTerm part = term;
    part.start = begin_;
    if (term.digit_count > 0) part.digits = digits_.data() + first_digit_[static_cast<std::size_t>(source)];
    if (term.add0 != nullptr) part.add0 = term.add0 + begin_;
    if (term.add1 != nullptr) part.add1 = term.add1 + begin_;
    if (product_[0] != nullptr && !special) {
        part.add0 = product_[0];
        part.add1 = product_[1];
    }
    return part;
}

ExtendedLimbs::ExtendedLimbs(const TransformPlan& plan, const Decompositions& decompositions, int capacity)
    : plan_(&plan),
      decompositions_(&decompositions),
      capacity_(static_cast<std::size_t>(capacity)),
      sources_(plan.sources.size()) {
    std::size_t digits = 0;
    for (const auto& decomposition : decompositions) {
        first_digit_.push_back(digits);
        if (decomposition) digits += static_cast<std::size_t>(decomposition->digits());
    }
    first_digit_.push_back(digits);
    digit_limbs_.resize(digits * capacity_);
    digit_scratch_ = Buffer::of_words(digits * capacity_ * plan.context->n());
}

std::size_t ExtendedLimbs::bytes(const TransformPlan& plan, int capacity) {
    std::size_t limbs = 0;
    for (const PlannedSource& source : plan.sources) {
        if (source.decomposed) limbs += static_cast<std::size_t>(plan.context->digits(plan.limbs));
    }
    return limbs * static_cast<std::size_t>(capacity) * plan.context->n() * sizeof(std::uint64_t);
}

int ExtendedLimbs::digit_count(int source) const {
    const std::size_t s = static_cast<std::size_t>(source);
    return static_cast<int>(first_digit_[s + 1] - first_digit_[s]);
}

void ExtendedLimbs::convert(const int* targets, int count, int t) {
    const std::size_t n = plan_->context->n();
    for (std::size_t s = 0; s < sources_; ++s) {
        const auto& decomposition = (*decompositions_)[s];
        if (!decomposition) continue;
        decomposition->convert(targets, count, digit_scratch_.words() + place(s, t) * n);
        for (int i = 0; i < count; ++i) {
            const std::size_t first = place(s, t + i);
            decomposition->locate(targets[i], digit_scratch_.words() + first * n,
                                  digit_limbs_.data() + first);
        }
    }
}

void ExtendedLimbs::transform(int target, int t, int part, const Upcoming& upcoming) {
    for (std::size_t s = 0; s < sources_; ++s) {
        const auto& decomposition = (*decompositions_)[s];
        if (!decomposition) continue;
        std::uint64_t* const scratch = digit_scratch_.words() + place(s, t) * plan_->context->n();
        decomposition->transform(target, part, upcoming, scratch, nullptr);
    }
}

void ExtendedLimbs::transform(int target, int t, int part, const Upcoming& upcoming,
                              DigitParts& apart) const {
    const std::size_t n = plan_->context->n();
    apart.begin_ = static_cast<std::size_t>(part) * apart.part_words_;
    for (std::size_t s = 0; s < sources_; ++s) {
        const auto& decomposition = (*decompositions_)[s];
        if (!decomposition) continue;
        std::uint64_t* const room = apart.words_.words() + first_digit_[s] * apart.part_words_;
        decomposition->transform(target, part, upcoming, digit_scratch_.words() + place(s, t) * n, room);
        for (int d = 0; d < decomposition->digits(); ++d) {
            apart.digits_[first_digit_[s] + static_cast<std::size_t>(d)] =
                room + static_cast<std::size_t>(d) * apart.part_words_;
        }
        const int owner = decomposition->owner(target);
        if (owner < 0) continue;
        const std::size_t own = static_cast<std::size_t>(owner);
        const ProductView* const product = plan_->sources[s].switched.product;
        if (product == nullptr) {
            apart.digits_[first_digit_[s] + own] = digits(static_cast<int>(s), t)[own] + apart.begin_;
            continue;
        }
        const std::uint64_t* factors[4];
        for (int c = 0; c < 2; ++c) {
            factors[c] = product->left.limb(c, target) + apart.begin_;
            factors[2 + c] = product->right.limb(c, target) + apart.begin_;
        }
        kernels().multiply_sum(apart.product_[0], apart.product_[1], apart.product_[2], &factors[0],
                               &factors[1], &factors[2], &factors[3], 1, false, false, apart.part_words_,
                               plan_->context->modulus(target));
        apart.digits_[first_digit_[s] + own] = apart.product_[2];
    }
}

void ExtendedLimbs::transform(int target, int t) {
    const int parts = kernels().ntt_parts(plan_->context->basis().log_n());
    for (int part = 0; part < parts; ++part) transform(target, t, part, {});
}

TermSum::TermSum(const TransformPlan& plan) : plan_(&plan) {
    for (const PlannedTerm& term : plan.terms) {
        encodes_ = encodes_ || (term.plaintext != nullptr && term.plaintext->coefficients != nullptr);
    }
    if (encodes_) scratch_ = Buffer::of_words((kEncodedTerms + 2) * plan.context->n());
}

void TermSum::run(const ExtendedLimbs& limbs, std::size_t output, int limb, int t, std::uint64_t* out0,
                  std::uint64_t* out1) {
    const Kernels& k = kernels();
    const std::size_t n = plan_->context->n();
    const Modulus& m = plan_->context->modulus(limb);
    const std::size_t begin = plan_->first_term[output];
    const std::size_t end = plan_->first_term[output + 1];
    const std::size_t step = encodes_ ? kEncodedTerms : end - begin;
    bool first = true;
    for (std::size_t from = begin; from < end; from += step) {
        gather(limbs, from, std::min(from + step, end), limb, t);
        if (terms_.empty()) continue;
        if (first) {
            k.accumulate_terms(out0, out1, terms_.data(), terms_.size(), 0, n, m);
            first = false;
        } else {
            std::uint64_t* const partial = scratch_.words() + kEncodedTerms * n;
            k.accumulate_terms(partial, partial + n, terms_.data(), terms_.size(), 0, n, m);
            k.add(out0, out0, partial, n, m);
            k.add(out1, out1, partial + n, n, m);
        }
    }
    if (first) {
        std::fill_n(out0, n, std::uint64_t{0});
        std::fill_n(out1, n, std::uint64_t{0});
    }
}

void TermSum::start(const ExtendedLimbs& limbs, std::size_t output, int limb, int t) {
    gather(limbs, plan_->first_term[output], plan_->first_term[output + 1], limb, t);
}

void TermSum::run_part(int limb, std::size_t begin, std::size_t end, std::uint64_t* out0,
                       std::uint64_t* out1) const {
    kernels().accumulate_terms(out0, out1, terms_.data(), terms_.size(), begin, end,
                               plan_->context->modulus(limb));
}

void TermSum::run_part(int limb, std::size_t begin, std::size_t end, const DigitParts& apart,
                       std::uint64_t* out0, std::uint64_t* out1) {
    parts_.clear();
    for (std::size_t i = 0; i < terms_.size(); ++i) {
        parts_.push_back(apart.at(terms_[i], sources_[i], plan_->is_special(limb)));
    }
    kernels().accumulate_terms(out0, out1, parts_.data(), parts_.size(), begin, end,
                               plan_->context->modulus(limb));
}

// The kernel's view of terms [from, to) at one limb.
void TermSum::gather(const ExtendedLimbs& limbs, std::size_t from, std::size_t to, int limb, int t) {
    terms_.clear();
    sources_.clear();
    keys_.clear();
    // Pointers into keys_ must stay valid.
    keys_.reserve((to - from) * 2 * static_cast<std::size_t>(plan_->context->digits(plan_->limbs)));
    std::size_t encoded = 0;
    for (std::size_t i = from; i < to; ++i) {
        const PlannedTerm& term = plan_->terms[i];
        if (term.key == nullptr && plan_->is_special(limb)) continue;  // a multiple of P
        const PlannedSource& source = plan_->sources[static_cast<std::size_t>(term.source)];
        RotationTerm r;
        r.permutation = term.permutation.get();
        plan_->add_parts(source, limb, term.key == nullptr || source.keeps_second, r);
        if (term.key != nullptr) {
            r.digit_count = limbs.digit_count(term.source);
            r.digits = limbs.digits(term.source, t);
            for (int c = 0; c < 2; ++c) {
                (c == 0 ? r.key0 : r.key1) = keys_.data() + keys_.size();
                for (int d = 0; d < r.digit_count; ++d) keys_.push_back(term.key->limb(d, c, limb));
            }
        }
        if (term.plaintext != nullptr) {
            std::uint64_t* scratch = nullptr;
            if (term.plaintext->coefficients != nullptr) {
                scratch = scratch_.words() + encoded++ * plan_->context->n();
            }
            r.plaintext = plaintext_limb(*plan_, *term.plaintext, limb, scratch);
        }
        terms_.push_back(r);
        sources_.push_back(term.source);
    }
}

}  // namespace cipherblas
