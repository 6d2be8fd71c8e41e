// Polynomials in X^(2^level) taken apart by their exponents modulo a power of two: some layers at once of the tree of
// automorphisms of Angel, Chen, Laine, Setty (PIR with compressed queries and amortized query processing, 2018). The
// automorphisms of a ciphertext share its digits, and its parts are added up modulo Q P, to be divided by P once each.
#pragma once
#include <cstdint>
#include <vector>

#include "rlwe/context.h"
#include "rlwe/switching_key.h"
#include "rlwe/views.h"

namespace cipherblas {

struct CoefficientParts {
    std::vector<CiphertextView> sources;  // two components, equal limbs
    int level = 0;
    int parts = 2;    // 2, 4 or 8
    int outputs = 2;  // of these, the first ones: at most `parts`
    // Number k - 1 is of the product of the automorphisms X -> X^(1 + N / 2^(level + j)) over the ones of k, j being the place of
    // a binary digit: parts - 1 of them.
    std::vector<SwitchingKeyView> keys;
};

// Throws std::invalid_argument when anything does not fit.
void check(const Context& context, const CoefficientParts& of);

// out[source * outputs + b], [2][limbs][N]: the coefficients of X^(2^level (b + parts i)) of a source, times `parts`, as those of
// X^(2^level parts i).
void run_coefficient_parts(const Context& context, const CoefficientParts& of, std::uint64_t* const* out);

}  // namespace cipherblas
