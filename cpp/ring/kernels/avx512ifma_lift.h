// Signed words modulo a prime, with AVX-512 IFMA.
#pragma once
#include "ring/kernels/avx512ifma_math.h"

namespace cipherblas::avx512ifma {
namespace {

// Bits that the absolute values of signed words take, or one more.
CIPHERBLAS_INLINE int signed_bits(const std::int64_t* a, std::size_t n) {
    __m512i bits = _mm512_setzero_si512();
    for (std::size_t i = 0; i < n; i += 8) {
        const __m512i x = _mm512_loadu_si512(a + i);
        bits = _mm512_or_si512(bits, _mm512_xor_si512(x, _mm512_maskz_srai_epi64(kAllLanes, x, 63)));
    }
    alignas(64) Word lanes[8];
    store(lanes, bits);
    Word all = 1;
    for (const Word lane : lanes) all |= lane;
    return 64 - __builtin_clzll(all);
}

// How words of a size become factors: x + 2^bias, a number that is not negative, and below 2^52 or, of any word, of two words
// that a Montgomery step makes one below 2^51.
template <bool WIDE>
struct Biased {
    static constexpr int kBias = WIDE ? 63 : 51;

    // The bias, times a factor, modulo q; and what the factor is multiplied by, so that a Montgomery product is one by it.
    static Word bias(Word factor, const Modulus& m) { return mul_mod((Word{1} << kBias) % m.q, factor, m); }
    static Word scaled(Word factor, const Modulus& m) {
        return mul_mod(WIDE ? m.r2_mod_q : m.r_mod_q, factor, m);
    }
    CIPHERBLAS_INLINE static __m512i word(__m512i x, const Lanes& m) {
        if (!WIDE) return add(x, broadcast(Word{1} << kBias));
        const __m512i u = _mm512_xor_si512(x, broadcast(Word{1} << kBias));
        return add(montgomery_signed(shift_right(u, kWordBits), u, m), m.q);
    }
};

// r = factor * a: the Montgomery product with the biased word is in (-q, q), and the bias goes.
template <bool WIDE>
CIPHERBLAS_INLINE void lift_biased(Word* r, const std::int64_t* a, Word factor, std::size_t n,
                                   const Modulus& modulus) {
    using From = Biased<WIDE>;
    const Lanes m(modulus);
    const __m512i bias = broadcast(From::bias(factor, modulus));
    const __m512i w = broadcast(From::scaled(factor, modulus));
    for (std::size_t i = 0; i < n; i += 8) {
        const __m512i x = From::word(_mm512_loadu_si512(a + i), m);
        const __m512i residue = add_once(montgomery_product(x, w, m), m.q);
        store(r + i, add_once(sub(residue, bias), m.q));
    }
}

CIPHERBLAS_INLINE void lift(Word* r, const std::int64_t* a, Word factor, std::size_t n,
                            const Modulus& modulus) {
    const int bits = signed_bits(a, n);
    if (bits >= 51) return lift_biased<true>(r, a, factor, n, modulus);
    if (bits >= modulus.bits || factor != 1) return lift_biased<false>(r, a, factor, n, modulus);
    const __m512i q = broadcast(modulus.q);
    for (std::size_t i = 0; i < n; i += 8) store(r + i, add_once(_mm512_loadu_si512(a + i), q));
}

// r_i = factor * a_i + mirrored * a_(n - i), for i < n, as a word: one reduction for the sum of both, in (-q, 2q); without the
// bias it is in (-2q, 2q).
template <bool WIDE>
CIPHERBLAS_INLINE void lift_mirrored_biased(Word* r, const std::int64_t* a, Word factor, Word mirrored,
                                            std::size_t n, const Modulus& modulus) {
    using From = Biased<WIDE>;
    const Lanes m(modulus);
    const __m512i shift = broadcast(2 * modulus.q - From::bias(add_mod(factor, mirrored, modulus), modulus));
    const __m512i w0 = broadcast(From::scaled(factor, modulus));
    const __m512i w1 = broadcast(From::scaled(mirrored, modulus));
    const __m512i reversed = reversed_lanes();
    for (std::size_t i = 0; i < n; i += 8) {
        const __m512i last = permute_lanes(_mm512_loadu_si512(a + n - i - 7), reversed);
        Sum sum;
        sum.add_product(From::word(_mm512_loadu_si512(a + i), m), w0);
        sum.add_product(From::word(last, m), w1);
        store(r + i, add(sum.montgomery(m), shift));
    }
}

CIPHERBLAS_INLINE void lift_mirrored(Word* r, const std::int64_t* a, Word factor, Word mirrored,
                                     std::size_t n, const Modulus& modulus) {
    if (signed_bits(a, n) >= 51) return lift_mirrored_biased<true>(r, a, factor, mirrored, n, modulus);
    lift_mirrored_biased<false>(r, a, factor, mirrored, n, modulus);
}

}  // namespace
}  // namespace cipherblas::avx512ifma
