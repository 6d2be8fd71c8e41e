// What every term of a linear transform reads at a limb of Q P: the digits of all sources.
#pragma once
#include <optional>
#include <vector>

#include "ring/kernels.h"
#include "ring/pool.h"
#include "rlwe/decomposition.h"
#include "rlwe/transform_plan.h"

namespace cipherblas {

// The hoisted decompositions of the sources that have terms with keys.
using Decompositions = std::vector<std::optional<Decomposition>>;
Decompositions decompose(const TransformPlan& plan);

// One part of what the terms read at a limb: the workspace of one thread.
class DigitParts {
  public:
    explicit DigitParts(const TransformPlan& plan);

    // What the term adds at that part, instead of at the limb, with the digits that are here. What it adds without a key
    // comes with the limb's own digit.
    RotationTerm at(const RotationTerm& term, int source) const;

  private:
    friend class ExtendedLimbs;
    void start(int part, DigitRange range) {
        begin_ = static_cast<std::size_t>(part) * part_words_;
        range_ = range;
        owned_ = digits_.empty();
    }
    void make_product(const ProductView& product, int limb, const Modulus& m);

    std::size_t part_words_;
    std::size_t begin_ = 0;                     // of the part
    DigitRange range_{0, 0};                    // of the digits
    bool owned_ = false;                        // the limb's own digit is among them, or there is none
    Buffer words_;                              // of the digits, then of a product's three components
    std::vector<const std::uint64_t*> digits_;  // of all sources
    std::vector<std::size_t> first_digit_;      // by source
    std::uint64_t* product_[3] = {};            // null: no source is a product
    std::uint64_t* addend_ = nullptr;           // of that product
    std::uint64_t* scaled_[2] = {};             // its left factor, multiplied
};

// Room for `capacity` limbs, numbered t = 0, 1, ..., and for so many digits of every source at one time.
class ExtendedLimbs {
  public:
    ExtendedLimbs(const TransformPlan& plan, const Decompositions& decompositions, int capacity, int digits);
    ExtendedLimbs(const TransformPlan& plan, const Decompositions& decompositions, int capacity)
        : ExtendedLimbs(plan, decompositions, capacity, plan.context->digits(plan.limbs)) {}
    // Bytes that so many limbs take.
    static std::size_t bytes(const TransformPlan& plan, int capacity);

    // First step, for `count` limbs at the places t, t + 1, ...: ModUp, up to the first layers of the NTT.
    void convert(const int* targets, int count, int t);
    // Second step, for one of them: the rest of the NTT of the digits, in one part or in all of them.
    void transform(int target, int t, int part, const Upcoming& upcoming);
    void transform(int target, int t);
    // The same for one part, apart: for what is read only once.
    void transform(int target, int t, int part, const Upcoming& upcoming, DigitParts& apart) const;

    // The same steps for some digits of the first limb, and then one part of them.
    void convert(int target, DigitRange range);
    void transform(int target, int part, DigitRange range, const Upcoming& upcoming) const;
    void take(int target, int part, DigitRange range, DigitParts& parts) const;

    // Of every source.
    DigitRange all() const { return {0, plan_->context->digits(plan_->limbs)}; }
    const std::uint64_t* const* digits(int source, int t) const {
        return digit_limbs_.data() + place(static_cast<std::size_t>(source), t);
    }

  private:
    // Sets the limb's own digit of a source, if it is in the range of the parts.
    void take_own(std::size_t source, int target, DigitParts& parts) const;
    // Of the first digit among all digit limbs: [source][t][digit].
    std::size_t place(std::size_t source, int t) const {
        return (number_[source] * capacity_ + static_cast<std::size_t>(t)) * room_;
    }

    const TransformPlan* plan_;
    const Decompositions* decompositions_;
    std::size_t capacity_, sources_;
    std::size_t room_;                 // for digits of a source
    std::vector<std::size_t> number_;  // by source, among those that are decomposed
    std::vector<const std::uint64_t*> digit_limbs_;
    Buffer digit_scratch_;
};

// Sums the terms of one output at one limb; the workspace of one thread.
class TermSum {
  public:
    explicit TermSum(const TransformPlan& plan);

    // limb: position in the basis, which is number t among `limbs`.
    void run(const ExtendedLimbs& limbs, std::size_t output, int limb, int t, std::uint64_t* out0,
             std::uint64_t* out1);

    // The same part by part, unless some plaintext is given by coefficients: first start, then run_part in any order.
    bool runs_by_parts() const { return !encodes_; }
    void start(const ExtendedLimbs& limbs, std::size_t output, int limb, int t);
    void run_part(int limb, std::size_t begin, std::size_t end, std::uint64_t* out0,
                  std::uint64_t* out1) const;
    // The same with digits that are apart.
    void run_part(int limb, std::size_t begin, std::size_t end, const DigitParts& apart, bool accumulate,
                  std::uint64_t* out0, std::uint64_t* out1);
    const std::vector<RotationTerm>& terms() const { return terms_; }

  private:
    void gather(const ExtendedLimbs& limbs, std::size_t from, std::size_t to, int limb, int t);

    const TransformPlan* plan_;
    bool encodes_ = false;  // some plaintext is given by coefficients
    Buffer scratch_;
    std::vector<RotationTerm> terms_, parts_;
    std::vector<int> sources_;  // of the terms
    std::vector<const std::uint64_t*> keys_;
};

}  // namespace cipherblas
