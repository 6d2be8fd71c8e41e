// Key switching of polynomials that are given by coefficients and wanted by coefficients: the rows of
// matrices.
//
// Switching x with a key of s' (b_d = -a_d s + e_d + P g_d s') adds to the result's phase, besides x s',
//   sum_d x_d e_d / P + r_b + r_a s,  |x_d| <= D_d / 2 and the roundings |r| <= 1/2 of ModDown.
// With sigma = 3.2, x_d uniform, and s uniform ternary of N coefficients, a coefficient of that has the
// variance
//   N sigma^2 / 12 sum_d (D_d / P)^2 + (1 + 2N/3) / 12.
#pragma once
#include <cstdint>
#include <vector>

#include "ring/pool.h"
#include "rlwe/context.h"
#include "rlwe/switching_key.h"
#include "rlwe/views.h"

namespace cipherblas {

// The digits of one polynomial at all limbs of the first `limbs` q primes and the special primes, NTT form.
class RowDigits {
  public:
    RowDigits(const Context& context, int limbs);

    // Where limb i of the polynomial is put, by coefficients in [0, q_i), before `decompose` overwrites it.
    std::uint64_t* input(int i) const { return input_.words() + static_cast<std::size_t>(i) * context_->n(); }
    void decompose();

    int digits() const { return digits_; }
    // The digits modulo the prime at position `limb` of the basis, one pointer per digit.
    const std::uint64_t* const* at(int limb) const;

  private:
    int row(int limb) const { return limb < limbs_ ? limb : limbs_ + limb - context_->num_q(); }
    void extend(int digit);

    const Context* context_;
    int limbs_, digits_, rows_;
    Buffer input_;     // [limbs][n]
    Buffer residues_;  // of one digit: the y_i of its conversion
    Buffer extended_;  // [rows][digits][n]
    std::vector<const std::uint64_t*> pointers_;
};

// Products of digits with keys, and ModDown; the workspace of one thread.
class RowProduct {
  public:
    RowProduct(const Context& context, int limbs);

    // b_i, a_i = round(sum_d digit_d key_d / P) mod q_i by coefficients: n words for each limb i.
    void run(const RowDigits& digits, const SwitchingKeyView& key, std::uint64_t* const* b,
             std::uint64_t* const* a);

  private:
    std::uint64_t* sum(int row, int component) const {
        return sums_.words() + static_cast<std::size_t>(2 * row + component) * context_->n();
    }
    void multiply(const RowDigits& digits, const SwitchingKeyView& key, int limb, int row);

    const Context* context_;
    int limbs_;
    Buffer sums_;      // [limbs + k][component][n]
    Buffer scratch_;   // [n]
    Buffer overflow_;  // [component][n]
    Buffer dropped_;   // [component][k][n]
    std::vector<const std::uint64_t*> key_b_, key_a_;
};

// (a_i, b_i) s = a_i s^2 + b_i s for `rows` rows by coefficients, all [limbs][rows][n] with strides as given.
// out_a, out_b: contiguous [limbs][rows][n]. key: of s^2.
void relinearise_rows(const Context& context, int limbs, std::size_t rows, const RowsView& a,
                      const RowsView& b, const SwitchingKeyView& key, std::uint64_t* out_a,
                      std::uint64_t* out_b);

// One polynomial a (limbs of n coefficients) switched with many keys: row i of out_a [limbs][keys][n] and
// out_b [limbs][keys][columns] has the phase a s_i at the first `columns` coefficients. Its digits are made
// once (hoisting).
void switch_rows(const Context& context, int limbs, const RowsView& a,
                 const std::vector<SwitchingKeyView>& keys, std::size_t columns, std::uint64_t* out_a,
                 std::uint64_t* out_b);

}  // namespace cipherblas
