// What both orders of the linear transform share: a checked transform with everything looked up.
#pragma once
#include <memory>
#include <vector>

#include "ring/kernels.h"
#include "rlwe/decomposition.h"
#include "rlwe/transform.h"

namespace cipherblas {

struct PlannedSource {
    PolynomialView parts[2];  // added to the components of an output (times P when there is a ModDown by P)
    SwitchedPolynomial switched;  // multiplied by the secret that a key switches from
    bool decomposed = false;      // some term has a key
    bool keeps_second = false;    // terms with a key add parts[1] too: relinearisation
    bool extended = false;  // parts are multiples of P, modulo P as well: special limbs follow the q limbs
    int alike = -1;         // an earlier source of which the same is switched: its digits serve both

    bool has_own_digits() const { return decomposed && alike < 0; }
};

struct PlannedTerm {
    int source = 0;
    const SwitchingKeyView* key = nullptr;
    const PlaintextView* plaintext = nullptr;
    std::shared_ptr<const Permutation> permutation;  // null: identity

    // Its plaintext is given by coefficients, and encoded while the sum is made.
    bool encodes() const { return plaintext != nullptr && plaintext->coefficients != nullptr; }
};

struct TransformPlan {
    const Context* context = nullptr;
    int limbs = 0;
    int kept = 0;  // limbs of the outputs
    int outputs = 0;
    bool extended = false;  // some term has a key: the sums live modulo Q P
    const BaseConversion* dropped =
        nullptr;  // the special limbs, and the last limb when rescaling; null: none
    std::vector<PlannedSource> sources;
    std::vector<PlannedTerm> terms;       // by output
    std::vector<std::size_t> first_term;  // terms of output o: first_term[o] .. first_term[o + 1]

    // Limb number `row` of an output.
    int kept_limb(int row) const { return row < limbs ? row : context->num_q() + row - limbs; }
    bool is_special(int limb) const { return limb >= context->num_q(); }
    // Sets what a term adds of the source's own parts at a limb: times P when extended, unless the source is, and so nothing
    // at special limbs.
    void add_parts(const PlannedSource& source, int limb, bool second, RotationTerm& term) const;
};

// A source for each two components of every ciphertext, whose last component is switched.
void add_sources(TransformPlan& plan, const std::vector<CiphertextView>& sources);

// Sources of which the same polynomial is switched, that messages share, have its digits together. A ciphertext that is a
// source twice is decomposed twice, as evaluators count it.
void find_alike(TransformPlan& plan);

// The looked-up transform without its checks (relinearisation fills it directly).
void finish_plan(TransformPlan& plan, bool rescale);

// The plaintext at one limb in NTT Montgomery form; made in scratch when the plaintext is given by coefficients.
const std::uint64_t* plaintext_limb(const TransformPlan& plan, const PlaintextView& plaintext, int limb,
                                    std::uint64_t* scratch);

void run_limb_order(const TransformPlan& plan, std::uint64_t* const* out);
void run_rotation_order(const TransformPlan& plan, std::uint64_t* const* out);

}  // namespace cipherblas
