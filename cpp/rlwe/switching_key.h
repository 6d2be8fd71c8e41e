// Switching keys: gadget encryptions of P * g_d * s' under s, for rotations, conjugation and relinearisation.
#pragma once
#include <cstdint>

#include "rlwe/context.h"
#include "rlwe/views.h"

namespace cipherblas {

// [digits][2][limbs + k][words] in Montgomery form: q_0 .. q_{limbs-1}, then the special primes; limbs are
// packed as the context packs keys. A key made for `limbs` limbs serves every ciphertext with at most so many.
struct SwitchingKeyView {
    const std::uint64_t* data = nullptr;
    int limbs = 0;
    int num_q = 0;
    int num_p = 0;
    std::size_t words = 0;  // of a limb
    int bits = kNarrowBits;

    SwitchingKeyView() = default;
    SwitchingKeyView(const Context& context, const std::uint64_t* key, int key_limbs)
        : data(key),
          limbs(key_limbs),
          num_q(context.num_q()),
          num_p(context.num_p()),
          words(context.key_words()),
          bits(context.key_bits()) {}

    // basis: position of the limb in the basis of the context.
    const std::uint64_t* limb(int digit, int component, int basis) const {
        const int row = basis < num_q ? basis : limbs + basis - num_q;
        return data +
               (static_cast<std::size_t>(digit * 2 + component) * static_cast<std::size_t>(limbs + num_p) +
                static_cast<std::size_t>(row)) *
                   words;
    }
};

// out[d] = (b_d, a_d) with b_d = -a_d s + e_d + P g_d s' where g_d is 1 on the limbs of digit d and 0 elsewhere.
// secret, source (s'): all num_q + k limbs, NTT form. a: [digits][limbs + k][N] uniform residues, taken as the
// Montgomery NTT form of the a part, so that component 1 of the key equals a, packed. noise: [digits][N] coefficients.
void make_switching_key(const Context& context, const PolynomialView& secret, const PolynomialView& source,
                        const std::uint64_t* a, const std::int64_t* noise, int limbs, std::uint64_t* out);

}  // namespace cipherblas
