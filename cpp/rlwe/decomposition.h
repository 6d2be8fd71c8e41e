// Decompose and ModUp of hybrid key switching (Han, Ki 2020): the digits of a polynomial, extended to all limbs.
#pragma once
#include <cstdint>
#include <vector>

#include "ring/kernels.h"
#include "ring/pool.h"
#include "rlwe/context.h"
#include "rlwe/views.h"

namespace cipherblas {

// What is decomposed, in NTT form: a polynomial in memory or, without one, the c2 of a product. A product is the only source
// of its transform, which has a single output.
struct SwitchedPolynomial {
    PolynomialView view;
    const ProductView* product = nullptr;
    const std::uint64_t* factors = nullptr;  // that c2 is multiplied by, all of the product together; null: 1

    LimbSource limb(int i) const {
        if (product == nullptr) return {view.limb(i), nullptr};
        const std::uint64_t factor = factors == nullptr ? 1 : factors[i];
        return {product->left.limb(1, i), product->right.limb(1, i), false, factor};
    }
};

// Digits begin, begin + 1, ..., end - 1.
struct DigitRange {
    int begin, end;

    int size() const { return end - begin; }
    bool has(int digit) const { return begin <= digit && digit < end; }
};

// The hoisted part that every later limb shares: y_i in coefficient form for every q limb, and the overflow of every
// digit. Extended limbs are then made one by one, where they are used.
class Decomposition {
  public:
    // x: the first `limbs` q limbs; must stay valid.
    Decomposition(const Context& context, const SwitchedPolynomial& x, int limbs);

    int digits() const { return digits_; }

    // Digits modulo `count` limbs (positions in the basis): number d of the range modulo targets[t] goes to limb
    // t * range.size() + d of scratch, its NTT begun. A digit's own limbs are left out.
    void convert(const int* targets, int count, DigitRange range, std::uint64_t* scratch) const;
    // Where they are: digits[d] points to scratch, or to x for a digit's own limb (null: x is a product).
    void locate(int target, DigitRange range, std::uint64_t* scratch, const std::uint64_t** digits) const;
    // Second step, for one limb and its range.size() limbs of scratch: the rest of the NTT of one part, in place or, if
    // there is room for so many parts, there.
    void transform(int target, int part, DigitRange range, const Upcoming& upcoming, std::uint64_t* scratch,
                   std::uint64_t* apart) const;
    // Which digit has the limb for its own; -1: none.
    int owner(int limb) const { return limb < limbs_ ? context_->owner(limb) : -1; }

  private:
    std::uint64_t* block(int digit) const {
        return y_.words() + static_cast<std::size_t>(context_->digit_begin(digit)) * context_->n();
    }

    const Context* context_;
    SwitchedPolynomial x_;
    int limbs_;
    int digits_;
    bool together_ = false;                           // many limbs are converted at once
    Buffer y_;                                        // per digit a block of its conversion
    Buffer overflow_;                                 // [digits][n]; empty where convert counts it
    std::vector<const BaseConversion*> conversions_;  // per digit
};

}  // namespace cipherblas
