// Clear polynomials that ciphertexts are multiplied by, in NTT Montgomery form: limb after limb N residues, of 32 bits modulo
// primes below 2^32 and of 64 modulo others (ring/packing.h). Of a polynomial in X^r, r a power of two, every r residues in a
// row are equal: the values at them are those of roots that differ by r-th roots of unity. Such a factor may have one of each r,
// N / r for a limb.
#pragma once
#include <cstdint>
#include <vector>

#include "rlwe/context.h"

namespace cipherblas {

// Halves of 64 bits, for each coefficient, of what stands before a limb in a factor of so many q limbs.
inline std::size_t halves_before(const Context& context, int limbs, int limb) {
    const int num_q = context.num_q();
    const std::size_t left_out =
        limb < num_q ? 0 : context.halves_before(num_q) - context.halves_before(limbs);
    return context.halves_before(limb) - left_out;
}
// Of all of it: so many q limbs, and the special ones if asked for.
inline std::size_t factor_halves(const Context& context, int limbs, bool special) {
    return special ? halves_before(context, limbs, context.basis().size()) : context.halves_before(limbs);
}

struct FactorView {
    const std::uint32_t* halves = nullptr;
    int limbs = 0;            // q limbs; special ones may follow
    std::size_t repeats = 1;  // r, not 2 nor 4

    // The residues of a limb from the one at `offset` on, as the kernels take them.
    const void* at(const Context& context, int limb, std::size_t offset) const {
        return halves + halves_before(context, limbs, limb) * (context.n() / repeats) +
               offset / repeats * halves_of(context.modulus(limb).bits);
    }
};

// Residues of signed coefficients; out has room for N / repeats times factor_halves. Throws std::invalid_argument where it is no
// polynomial in X^repeats.
void encode_factor(const Context& context, const std::int64_t* coefficients, int limbs, bool special,
                   std::size_t repeats, std::uint32_t* out);

// Factors of all terms of a sum, at so many q limbs. Limbs are cut into pieces of `width` residues, a divisor of N, each piece
// of all terms in a row: [limb][N / width][term][width].
struct FactorBlock {
    std::uint32_t* halves;
    int limbs;
    std::size_t terms, width;
};
// Writes those of the terms from `first` on.
void encode_factors(const Context& context, const std::vector<const std::int64_t*>& coefficients,
                    std::size_t first, const FactorBlock& block);

}  // namespace cipherblas
