// What every term of a linear transform reads at a limb of Q P: the digits and scaled parts of all sources.
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

// A source's own two components at one limb, times P; null where nothing is to be added.
struct ScaledParts {
    const std::uint64_t* parts[2] = {nullptr, nullptr};
};

// Room for `capacity` limbs, numbered t = 0, 1, ...
class ExtendedLimbs {
  public:
    ExtendedLimbs(const TransformPlan& plan, const Decompositions& decompositions, int capacity);
    // Bytes that so many limbs take.
    static std::size_t bytes(const TransformPlan& plan, int capacity);

    // First step, for `count` limbs at the places t, t + 1, ...: ModUp in coefficient form.
    void convert(const int* targets, int count, int t);
    // Second step, for one of them: NTT of the digits, and the scaled parts.
    void transform(int target, int t);

    int digit_count(int source) const;
    const std::uint64_t* const* digits(int source, int t) const {
        return digit_limbs_.data() + place(static_cast<std::size_t>(source), t);
    }
    const ScaledParts& parts(int source, int t) const {
        return parts_[static_cast<std::size_t>(t) * sources_ + static_cast<std::size_t>(source)];
    }

  private:
    // Of digit 0 among all digit limbs: [source][t][digit].
    std::size_t place(std::size_t source, int t) const {
        return first_digit_[source] * capacity_ +
               static_cast<std::size_t>(t) * (first_digit_[source + 1] - first_digit_[source]);
    }

    const TransformPlan* plan_;
    const Decompositions* decompositions_;
    std::size_t capacity_, sources_;
    std::vector<std::size_t> first_digit_;  // by source
    std::vector<const std::uint64_t*> digit_limbs_;
    std::vector<ScaledParts> parts_;  // [t][source]
    Buffer digit_scratch_, part_scratch_;
};

// Sums the terms of one output at one limb; the workspace of one thread.
class TermSum {
  public:
    explicit TermSum(const TransformPlan& plan);

    // limb: position in the basis, which is number t among `limbs`.
    void run(const ExtendedLimbs& limbs, std::size_t output, int limb, int t, std::uint64_t* out0,
             std::uint64_t* out1);

  private:
    void gather(const ExtendedLimbs& limbs, std::size_t from, std::size_t to, int limb, int t);

    const TransformPlan* plan_;
    bool encodes_ = false;  // some plaintext is given by coefficients
    Buffer scratch_;
    std::vector<RotationTerm> terms_;
    std::vector<const std::uint64_t*> keys_;
};

}  // namespace cipherblas
