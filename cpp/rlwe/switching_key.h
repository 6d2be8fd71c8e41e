// Switching keys: gadget encryptions of P * g_d * s' under s, for rotations, conjugation and relinearisation.
#pragma once
#include <cstdint>

#include "rlwe/context.h"
#include "rlwe/views.h"

namespace cipherblas {

// [digits][2][key_words(limbs)] in Montgomery form: q_0 .. q_{limbs-1}, then the special primes; each limb is packed by the size
// of its prime. A key made for `limbs` limbs serves every ciphertext with at most so many.
struct SwitchingKeyView {
    const Context* context = nullptr;
    const std::uint64_t* data = nullptr;
    int limbs = 0;
    std::size_t words = 0;  // of a component

    SwitchingKeyView() = default;
    SwitchingKeyView(const Context& owner, const std::uint64_t* key, int key_limbs)
        : context(&owner), data(key), limbs(key_limbs), words(owner.key_words(key_limbs)) {}

    // basis: position of the limb in the basis of the context.
    int bits(int basis) const { return context->key_bits(basis); }
    const std::uint64_t* limb(int digit, int component, int basis) const {
        return data + static_cast<std::size_t>(digit * 2 + component) * words +
               context->key_words_before(limbs, basis);
    }
};

// out[d] = (b_d, a_d) with b_d = -a_d s + e_d + P g_d s' where g_d is 1 on the limbs of digit d and 0 elsewhere.
// secret, source (s'): all num_q + k limbs, NTT form. a: [digits][limbs + k][N] uniform residues, taken as the
// Montgomery NTT form of the a part, so that component 1 of the key equals a, packed. noise: [digits][N] coefficients.
void make_switching_key(const Context& context, const PolynomialView& secret, const PolynomialView& source,
                        const std::uint64_t* a, const std::int64_t* noise, int limbs, std::uint64_t* out);

}  // namespace cipherblas
