// Sums and products of ciphertexts, limb by limb, and rescaling. Everything in NTT form.
#pragma once
#include <cstdint>
#include <vector>

#include "rlwe/context.h"
#include "rlwe/factor.h"
#include "rlwe/switching_key.h"
#include "rlwe/views.h"

namespace cipherblas {

// x + y, x - y. Equal limbs; a missing component is 0; out has the larger number of components.
void add(const Context& context, const CiphertextView& x, const CiphertextView& y, const CiphertextSpan& out);
void subtract(const Context& context, const CiphertextView& x, const CiphertextView& y,
              const CiphertextSpan& out);
void negate(const Context& context, const CiphertextView& x, const CiphertextSpan& out);

// x + m: the plaintext is added to component 0.
void add_plain(const Context& context, const CiphertextView& x, const PolynomialView& plaintext,
               const CiphertextSpan& out);
// x m; the plaintext is in Montgomery form.
void multiply_plain(const Context& context, const CiphertextView& x, const PolynomialView& plaintext,
                    const CiphertextSpan& out);
// x c; residues[i] = c mod q_i.
void multiply_scalar(const Context& context, const CiphertextView& x,
                     const std::vector<std::uint64_t>& residues, const CiphertextSpan& out);
// out = sum_t x_t c_t + (c, 0, ...): residues[t][i] = c_t mod q_i, constant[i] = c mod q_i. Every term has all components.
struct ScaledSum {
    std::vector<CiphertextView> terms;
    std::vector<std::vector<std::uint64_t>> residues;
    std::vector<std::uint64_t> constant;
    CiphertextSpan out;
};
// All of them in one pass: terms that several of them have are read once.
void scaled_sums(const Context& context, const std::vector<ScaledSum>& sums);

// out (+)= sum_t left_t right_t, three components; factors have two. No relinearisation.
void multiply_sum(const Context& context, const std::vector<CiphertextView>& lefts,
                  const std::vector<CiphertextView>& rights, bool accumulate, const CiphertextSpan& out);
// Of sums that are made together: lists of right factors, and of left ones.
inline constexpr std::size_t kSumsTogether = 8, kLinesTogether = 8;

// outs[l * rights.size() + o] = sum_t lefts[l]_t rights[o]_t, times a residue for each limb if there are factors, relinearised
// with the key of s^2. All lists are of one length. Some of the sums are made together: they stay in the cache of their core.
void relinearised_sums(const Context& context, const std::vector<std::vector<CiphertextView>>& lefts,
                       const std::vector<std::vector<CiphertextView>>& rights,
                       const std::vector<std::uint64_t>& factors, const SwitchingKeyView& key,
                       const std::vector<CiphertextSpan>& outs);
// out (+)= sum_t plaintext_t ciphertext_t, two components.
void multiply_plain_sum(const Context& context, const std::vector<FactorView>& plaintexts,
                        const std::vector<CiphertextView>& ciphertexts, bool accumulate,
                        const CiphertextSpan& out);

// Plaintexts that are multiplied by some of a list of ciphertexts and summed up: one output. They lie as in a FactorBlock.
struct WeightBlock {
    const std::uint32_t* halves;
    std::vector<std::uint32_t> terms;  // positions in the list
};

// outs[b] = sum_t blocks[b][t] ciphertexts[blocks[b].terms[t]], two components. A piece of all ciphertexts stays in the
// core's cache while the blocks stream past it. `width` divides N.
void weighted_sums(const Context& context, const std::vector<WeightBlock>& blocks, std::size_t width,
                   const std::vector<CiphertextView>& ciphertexts, const std::vector<CiphertextSpan>& outs);

// outs[o] = sum_t w_(o, t) ciphertext_t, two components, for clear polynomials of `count` coefficients, a power of two that
// divides N, from the constant one on: coefficients[(o * terms + t) * count + k]. They are transformed where they are used,
// which takes log2(count) layers, a piece of the limb after the other: nothing of them goes to memory.
void polynomial_sums(const Context& context, const std::int64_t* coefficients, std::size_t count,
                     const std::vector<CiphertextView>& ciphertexts, const std::vector<CiphertextSpan>& outs);

// round(x / (q_{l-count} ... q_{l-1})): spends `count` levels. 1 <= count < limbs.
void rescale(const Context& context, const CiphertextView& x, int count, const CiphertextSpan& out);

}  // namespace cipherblas
