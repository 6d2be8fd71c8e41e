// Linear transforms and key switching: sums of  plaintext * automorphism(source)  with one ModDown per output.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "rlwe/context.h"
#include "rlwe/switching_key.h"
#include "rlwe/views.h"

namespace cipherblas {

// One term of one output, as the caller states it; -1: no key (only for galois 1), no plaintext (factor 1).
struct TransformTerm {
    int output = 0;
    int source = 0;
    std::uint64_t galois = 1;
    int key = -1;
    int plaintext = -1;
};

// Either coefficients [N], or rows [limbs + k][N] in NTT Montgomery form (q limbs first).
struct PlaintextView {
    const std::int64_t* coefficients = nullptr;
    const std::uint64_t* rows = nullptr;
    int limbs = 0;           // q limbs among the rows
    bool symmetric = false;  // the coefficients are (is_symmetric)
};

enum class TransformOrder {
    kLimb,  // MO-HLT (FAME, Algorithm 3): limb outer, rotation inner, extended limbs made where they are used
    kRotation,  // coarse: all extended limbs stored, every rotated ciphertext written to memory, then multiplied
};

// output_o = sum over its terms of plaintext * automorphism_galois(source); with `rescale`, divided by the last q limb
// in the same ModDown. Both orders give the same bits.
//
// Sources have an even number of components, of which the last one, a, is switched: (b, a), or several messages that share
// their a part, (b_1, ..., b_r, a) with a s_j + b_j = m_j (Bae et al., CRYPTO 2024). Each two components take a key of their
// own, whose components are added to them; the keys of one number follow each other. Digits are made once for all.
struct Transform {
    int pairs() const { return sources.empty() ? 1 : sources.front().components / 2; }

    int limbs = 0;    // of every source
    int outputs = 0;  // all sums; an output without a term is zero
    bool rescale = false;
    bool divide = true;  // else outputs are the sums modulo Q P, the special limbs after the q limbs
    std::vector<CiphertextView> sources;
    std::vector<TransformTerm> terms;
    std::vector<SwitchingKeyView> keys;
    std::vector<PlaintextView> plaintexts;
};

// The limbs that ModDown drops are held for blocks of outputs of at most so many bytes.
inline constexpr std::size_t kDroppedBytes = std::size_t{256} << 20;

// out[o]: [components][limbs - rescale][N], undivided [components][limbs + k][N]. Throws std::invalid_argument, naming the term, when anything does not fit.
void run_transform(const Context& context, const Transform& transform, TransformOrder order,
                   std::uint64_t* const* out);

// The ModDown of run_transform, of a sum of undivided outputs, each [2][limbs + k][N]: that of all their terms, bit for bit.
// out: [2][limbs - rescale][N].
void divide_sums(const Context& context, const std::vector<const std::uint64_t*>& sums, int limbs,
                 bool rescale, std::uint64_t* out);

// (b, a, c2) -> (b, a) with the key of s^2; with `rescale`, divided by the last q limb in the same ModDown.
// out: [2][limbs - rescale][N].
void relinearise(const Context& context, const CiphertextView& ciphertext, const SwitchingKeyView& key,
                 bool rescale, std::uint64_t* out);

// The same of a product, which itself is never stored.
void multiply_relinearise(const Context& context, const ProductView& product, const SwitchingKeyView& key,
                          bool rescale, std::uint64_t* out);

}  // namespace cipherblas
