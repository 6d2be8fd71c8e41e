#include "rlwe/extended_limbs.h"

#include <algorithm>

namespace cipherblas {
namespace {

constexpr std::size_t kEncodedTerms = 8;  // plaintexts given by coefficients that are in NTT form at one time

}  // namespace

Decompositions decompose(const TransformPlan& plan) {
    Decompositions decompositions(plan.sources.size());
    for (std::size_t s = 0; s < plan.sources.size(); ++s) {
        if (plan.sources[s].has_own_digits()) {
            decompositions[s].emplace(*plan.context, plan.sources[s].switched, plan.limbs);
        }
    }
    return decompositions;
}

DigitParts::DigitParts(const TransformPlan& plan)
    : part_words_(plan.context->n() /
                  static_cast<std::size_t>(kernels().ntt_parts(plan.context->basis().log_n()))) {
    bool has_product = false, adds = false, scales = false;
    std::size_t digits = 0;
    for (const PlannedSource& source : plan.sources) {
        first_digit_.push_back(source.alike < 0 ? digits
                                                : first_digit_[static_cast<std::size_t>(source.alike)]);
        if (source.has_own_digits()) digits += static_cast<std::size_t>(plan.context->digits(plan.limbs));
        if (source.switched.product == nullptr) continue;
        has_product = true;
        adds =
            source.switched.product->added.data != nullptr || source.switched.product->constants != nullptr;
        scales = source.switched.product->left_factors != nullptr;
    }
    digits_.resize(digits);
    const std::size_t rooms = digits + (has_product ? 3 : 0) + (adds ? 1 : 0) + (scales ? 2 : 0);
    words_ = Buffer::of_words(rooms * part_words_);
    const auto room = [&](std::size_t number) { return words_.words() + number * part_words_; };
    if (adds) addend_ = room(digits + 3);
    for (std::size_t c = 0; scales && c < 2; ++c) scaled_[c] = room(rooms - 2 + c);
    for (std::size_t c = 0; has_product && c < 3; ++c) product_[c] = room(digits + c);
}

RotationTerm DigitParts::at(const RotationTerm& term, int source) const {
    RotationTerm part = term;
    part.start = begin_;
    if (term.digit_count > 0) {
        part.digits = digits_.data() + first_digit_[static_cast<std::size_t>(source)];
        part.digit_count = range_.size();
        part.key0 += range_.begin;
        part.key1 += range_.begin;
    }
    part.add0 = part.add1 = nullptr;
    if (!owned_) return part;
    if (term.add0 != nullptr) part.add0 = term.add0 + begin_;
    if (term.add1 != nullptr) part.add1 = term.add1 + begin_;
    if (product_[0] != nullptr) {
        part.add0 = product_[0];
        part.add1 = product_[1];
    }
    return part;
}

ExtendedLimbs::ExtendedLimbs(const TransformPlan& plan, const Decompositions& decompositions, int capacity,
                             int digits)
    : plan_(&plan),
      decompositions_(&decompositions),
      capacity_(static_cast<std::size_t>(capacity)),
      sources_(plan.sources.size()),
      room_(static_cast<std::size_t>(digits)) {
    std::size_t decomposed = 0;
    for (std::size_t s = 0; s < sources_; ++s) {
        const int alike = plan.sources[s].alike;
        if (alike >= 0) {
            number_.push_back(number_[static_cast<std::size_t>(alike)]);
        } else {
            number_.push_back(decompositions[s] ? decomposed++ : 0);
        }
    }
    digit_limbs_.resize(decomposed * capacity_ * room_);
    digit_scratch_ = Buffer::workspace_of_words(decomposed * capacity_ * room_ * plan.context->n());
}

std::size_t ExtendedLimbs::bytes(const TransformPlan& plan, int capacity) {
    std::size_t limbs = 0;
    for (const PlannedSource& source : plan.sources) {
        if (source.has_own_digits()) limbs += static_cast<std::size_t>(plan.context->digits(plan.limbs));
    }
    return limbs * static_cast<std::size_t>(capacity) * plan.context->n() * sizeof(std::uint64_t);
}

void ExtendedLimbs::convert(const int* targets, int count, int t) {
    const std::size_t n = plan_->context->n();
    for (std::size_t s = 0; s < sources_; ++s) {
        const auto& decomposition = (*decompositions_)[s];
        if (!decomposition) continue;
        decomposition->convert(targets, count, all(), digit_scratch_.words() + place(s, t) * n);
        for (int i = 0; i < count; ++i) {
            const std::size_t first = place(s, t + i);
            decomposition->locate(targets[i], all(), digit_scratch_.words() + first * n,
                                  digit_limbs_.data() + first);
        }
    }
}

void ExtendedLimbs::transform(int target, int t, int part, const Upcoming& upcoming) {
    for (std::size_t s = 0; s < sources_; ++s) {
        const auto& decomposition = (*decompositions_)[s];
        if (!decomposition) continue;
        std::uint64_t* const scratch = digit_scratch_.words() + place(s, t) * plan_->context->n();
        decomposition->transform(target, part, all(), upcoming, scratch, nullptr);
    }
}

void ExtendedLimbs::transform(int target, int t, int part, const Upcoming& upcoming,
                              DigitParts& apart) const {
    const std::size_t n = plan_->context->n();
    apart.start(part, all());
    for (std::size_t s = 0; s < sources_; ++s) {
        const auto& decomposition = (*decompositions_)[s];
        if (!decomposition) continue;
        const std::size_t first = apart.first_digit_[s];
        std::uint64_t* const room = apart.words_.words() + first * apart.part_words_;
        decomposition->transform(target, part, all(), upcoming, digit_scratch_.words() + place(s, t) * n,
                                 room);
        for (std::size_t d = 0; d < room_; ++d) apart.digits_[first + d] = room + d * apart.part_words_;
        take_own(s, target, apart);
    }
}

void ExtendedLimbs::convert(int target, DigitRange range) {
    const std::size_t n = plan_->context->n();
    for (std::size_t s = 0; s < sources_; ++s) {
        const auto& decomposition = (*decompositions_)[s];
        if (!decomposition) continue;
        decomposition->convert(&target, 1, range, digit_scratch_.words() + place(s, 0) * n);
    }
}

void ExtendedLimbs::transform(int target, int part, DigitRange range, const Upcoming& upcoming) const {
    const std::size_t n = plan_->context->n();
    for (std::size_t s = 0; s < sources_; ++s) {
        const auto& decomposition = (*decompositions_)[s];
        if (!decomposition) continue;
        decomposition->transform(target, part, range, upcoming, digit_scratch_.words() + place(s, 0) * n,
                                 nullptr);
    }
}

void ExtendedLimbs::take(int target, int part, DigitRange range, DigitParts& parts) const {
    const std::size_t n = plan_->context->n();
    parts.start(part, range);
    for (std::size_t s = 0; s < sources_; ++s) {
        if (!(*decompositions_)[s]) continue;
        const std::uint64_t* const scratch = digit_scratch_.words() + place(s, 0) * n + parts.begin_;
        for (std::size_t d = 0; d < static_cast<std::size_t>(range.size()); ++d) {
            parts.digits_[parts.first_digit_[s] + d] = scratch + d * n;
        }
        take_own(s, target, parts);
    }
}

void ExtendedLimbs::take_own(std::size_t source, int target, DigitParts& parts) const {
    const int owner = (*decompositions_)[source]->owner(target);
    if (owner < 0 && plan_->sources[source].extended) parts.owned_ = parts.range_.begin == 0;
    if (!parts.range_.has(owner)) return;
    parts.owned_ = true;
    const std::size_t own = parts.first_digit_[source] + static_cast<std::size_t>(owner - parts.range_.begin);
    const SwitchedPolynomial& switched = plan_->sources[source].switched;
    if (switched.product == nullptr) {
        parts.digits_[own] = switched.view.limb(target) + parts.begin_;
        return;
    }
    parts.make_product(*switched.product, target, plan_->context->modulus(target));
    parts.digits_[own] = parts.product_[2];
}

void DigitParts::make_product(const ProductView& product, int limb, const Modulus& m) {
    const Kernels& k = kernels();
    const std::uint64_t* factors[4];
    for (int c = 0; c < 2; ++c) {
        factors[c] = product.left.limb(c, limb) + begin_;
        factors[2 + c] = product.right.limb(c, limb) + begin_;
        if (product.left_factors == nullptr) continue;
        k.mul_scalar(scaled_[c], factors[c], product.left_factors[limb], part_words_, m);
        factors[c] = scaled_[c];
    }
    k.multiply_sum(product_[0], product_[1], product_[2], &factors[0], &factors[1], &factors[2], &factors[3],
                   1, false, false, part_words_, m);
    for (std::uint64_t* const words : product_) {
        if (product.factors != nullptr) k.mul_scalar(words, words, product.factors[limb], part_words_, m);
    }
    for (int c = 0; product.added.data != nullptr && c < 2; ++c) {
        k.mul_scalar(addend_, product.added.limb(c, limb) + begin_, product.added_factors[limb], part_words_,
                     m);
        k.add(product_[c], product_[c], addend_, part_words_, m);
    }
    if (product.constants == nullptr) return;
    std::fill_n(addend_, part_words_, product.constants[limb]);
    k.add(product_[0], product_[0], addend_, part_words_, m);
}

void ExtendedLimbs::transform(int target, int t) {
    const int parts = kernels().ntt_parts(plan_->context->basis().log_n());
    for (int part = 0; part < parts; ++part) transform(target, t, part, {});
}

TermSum::TermSum(const TransformPlan& plan) : plan_(&plan) {
    for (const PlannedTerm& term : plan.terms) {
        encodes_ = encodes_ || term.encodes();
    }
    if (encodes_) scratch_ = Buffer::of_words(kEncodedTerms * plan.context->n());
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
        k.accumulate_terms(out0, out1, terms_.data(), terms_.size(), !first, 0, n, m);
        first = false;
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
    kernels().accumulate_terms(out0, out1, terms_.data(), terms_.size(), false, begin, end,
                               plan_->context->modulus(limb));
}

void TermSum::run_part(int limb, std::size_t begin, std::size_t end, const DigitParts& apart, bool accumulate,
                       std::uint64_t* out0, std::uint64_t* out1) {
    parts_.clear();
    for (std::size_t i = 0; i < terms_.size(); ++i) parts_.push_back(apart.at(terms_[i], sources_[i]));
    kernels().accumulate_terms(out0, out1, parts_.data(), parts_.size(), accumulate, begin, end,
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
        const PlannedSource& source = plan_->sources[static_cast<std::size_t>(term.source)];
        if (term.key == nullptr && plan_->is_special(limb) && !source.extended) continue;  // a multiple of P
        RotationTerm r;
        r.permutation = term.permutation.get();
        plan_->add_parts(source, limb, term.key == nullptr || source.keeps_second, r);
        if (term.key != nullptr) {
            r.digit_count = limbs.all().size();
            r.key_bits = term.key->bits(limb);
            r.digits = limbs.digits(term.source, t);
            for (int c = 0; c < 2; ++c) {
                (c == 0 ? r.key0 : r.key1) = keys_.data() + keys_.size();
                for (int d = 0; d < r.digit_count; ++d) keys_.push_back(term.key->limb(d, c, limb));
            }
        }
        if (term.plaintext != nullptr) {
            std::uint64_t* scratch = nullptr;
            if (term.encodes()) {
                scratch = scratch_.words() + encoded++ * plan_->context->n();
            }
            r.plaintext = plaintext_limb(*plan_, *term.plaintext, limb, scratch);
        }
        terms_.push_back(r);
        sources_.push_back(term.source);
    }
}

}  // namespace cipherblas
