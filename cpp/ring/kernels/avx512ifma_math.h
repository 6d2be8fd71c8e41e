// Modular arithmetic on eight 52-bit words at a time. Everything here has internal linkage: this code must
// never be the copy that a linker picks for a program that also runs on older CPUs.
#pragma once
#include <immintrin.h>

#include "arith/modulus.h"

namespace cipherblas {
namespace {

using Word = std::uint64_t;

#define CIPHERBLAS_INLINE [[gnu::always_inline]] inline

CIPHERBLAS_INLINE __m512i load(const Word* p) { return _mm512_load_si512(p); }
CIPHERBLAS_INLINE void store(Word* p, __m512i v) { _mm512_store_si512(p, v); }
CIPHERBLAS_INLINE void store_past_caches(Word* p, __m512i v) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(p), v);
}
CIPHERBLAS_INLINE __m512i broadcast(Word x) { return _mm512_set1_epi64(static_cast<long long>(x)); }
CIPHERBLAS_INLINE __m512i add(__m512i a, __m512i b) { return _mm512_add_epi64(a, b); }
CIPHERBLAS_INLINE __m512i sub(__m512i a, __m512i b) { return _mm512_sub_epi64(a, b); }

// accumulator + the low or high 52 bits of the product of the low 52 bits of a and b.
CIPHERBLAS_INLINE __m512i add_low(__m512i accumulator, __m512i a, __m512i b) {
    return _mm512_madd52lo_epu64(accumulator, a, b);
}
CIPHERBLAS_INLINE __m512i add_high(__m512i accumulator, __m512i a, __m512i b) {
    return _mm512_madd52hi_epu64(accumulator, a, b);
}
CIPHERBLAS_INLINE __m512i low_product(__m512i a, __m512i b) { return add_low(_mm512_setzero_si512(), a, b); }
CIPHERBLAS_INLINE __m512i high_product(__m512i a, __m512i b) {
    return add_high(_mm512_setzero_si512(), a, b);
}

// Masked by all ones where GCC 12 warns falsely (-Wuninitialized) of the unmasked intrinsic: the same
// instructions.
inline constexpr __mmask8 kAllLanes = 0xff;
CIPHERBLAS_INLINE __m512i minimum(__m512i a, __m512i b) { return _mm512_maskz_min_epu64(kAllLanes, a, b); }
CIPHERBLAS_INLINE __m512i repeat_two(const Word* p) {
    return _mm512_maskz_broadcast_i64x2(kAllLanes, _mm_load_si128(reinterpret_cast<const __m128i*>(p)));
}
CIPHERBLAS_INLINE __m512i repeat_four(const Word* p) {
    return _mm512_maskz_broadcast_i64x4(kAllLanes, _mm256_load_si256(reinterpret_cast<const __m256i*>(p)));
}
CIPHERBLAS_INLINE __m512i permute_lanes(__m512i x, __m512i order) {
    return _mm512_maskz_permutexvar_epi64(kAllLanes, order, x);
}
CIPHERBLAS_INLINE __m512i reversed_lanes() { return _mm512_setr_epi64(7, 6, 5, 4, 3, 2, 1, 0); }
CIPHERBLAS_INLINE __m512i shift_left(__m512i x, unsigned count) {
    return _mm512_maskz_slli_epi64(kAllLanes, x, count);
}
CIPHERBLAS_INLINE __m512i shift_right(__m512i x, unsigned count) {
    return _mm512_maskz_srli_epi64(kAllLanes, x, count);
}

// x - bound if x >= bound, else x: the difference wraps around to a huge number when it is negative.
CIPHERBLAS_INLINE __m512i subtract_once(__m512i x, __m512i bound) { return minimum(x, sub(x, bound)); }
// x + q if x is negative, else x, for x in (-q, 2^63): a negative x is a huge unsigned number.
CIPHERBLAS_INLINE __m512i add_once(__m512i x, __m512i q) { return minimum(x, add(x, q)); }

// floor(2^52 / q)
inline Word word_reciprocal(const Modulus& m) { return m.mu >> (m.bits - 1); }

// A modulus in registers.
struct Lanes {
    __m512i q, twice_q;
    __m512i minus_q;  // 2^52 - q
    __m512i q_inv;    // q^-1 mod 2^52
    __m512i mask;     // 2^52 - 1

    CIPHERBLAS_INLINE explicit Lanes(const Modulus& m)
        : q(broadcast(m.q)),
          twice_q(broadcast(2 * m.q)),
          minus_q(broadcast(kWordMask + 1 - m.q)),
          q_inv(broadcast(m.q_inv)),
          mask(broadcast(kWordMask)) {}
};

// Shoup's product x * w - floor(x * quotient / 2^52) * q in [0, 2q), for any x < 2^52, w < q, quotient =
// floor(w 2^52 / q). It is below 2q < 2^52, so the sum of the low halves with -q in place of q, taken mod
// 2^52, is exact.
CIPHERBLAS_INLINE __m512i shoup_product(__m512i x, __m512i w, __m512i quotient, const Lanes& m) {
    const __m512i estimate = high_product(x, quotient);
    return _mm512_and_si512(add_low(low_product(x, w), estimate, m.minus_q), m.mask);
}

// Signed Montgomery reduction of high * 2^52 + low (low < 2^52): high - u q / 2^52 with u = low * q^-1, in
// (-q, high].
CIPHERBLAS_INLINE __m512i montgomery_signed(__m512i high, __m512i low, const Lanes& m) {
    return sub(high, high_product(low_product(low, m.q_inv), m.q));
}

// x * w * 2^-52 in (-q, q), for any x < 2^52 and w < q.
CIPHERBLAS_INLINE __m512i montgomery_product(__m512i x, __m512i w, const Lanes& m) {
    return montgomery_signed(high_product(x, w), low_product(x, w), m);
}

// A sum of products, sum = high * 2^52 + low: one term adds below 2^52 to each word, if the factors are below 2^52.
struct Sum {
    __m512i low = _mm512_setzero_si512();
    __m512i high = _mm512_setzero_si512();

    CIPHERBLAS_INLINE void add_product(__m512i a, __m512i b) {
        low = add_low(low, a, b);
        high = add_high(high, a, b);
    }
    // sum * 2^-52 in (-q, sum / 2^52], the low word taken as signed: it may come from a difference of sums.
    CIPHERBLAS_INLINE __m512i montgomery(const Lanes& m) const {
        return montgomery_signed(add(high, _mm512_maskz_srai_epi64(kAllLanes, low, kWordBits)), low, m);
    }
};

// The full reduction of sum * 2^-52 for a sum below quarters * q * 2^50: its Montgomery reduction lies in
// (-q, quarters * q / 4). Up to 4q / 4 one conditional addition is left; up to a word, with q added, a quotient that is one
// too small at most and a conditional subtraction. Otherwise two more steps,
//   (-q, 2^63) -> + q, again by Montgomery -> (-q, 2^11] -> + q, times 2^104 by Montgomery -> (-q, q),
// which need quarters * q / 4 + q < 2^63.
class Reduction {
  public:
    Reduction(const Modulus& m, std::uint64_t quarters)
        : reciprocal_(broadcast(word_reciprocal(m))),
          factor_(broadcast(m.r2_mod_q)),
          at_once_(quarters <= 4),
          in_word_((quarters + 4) * m.q <= (kWordMask + 1) * 4) {}

    CIPHERBLAS_INLINE __m512i operator()(const Sum& sum, const Lanes& m) const {
        __m512i r = sum.montgomery(m);
        if (at_once_) return add_once(r, m.q);
        r = add(r, m.q);
        if (in_word_) {
            r = _mm512_and_si512(add_low(r, high_product(r, reciprocal_), m.minus_q), m.mask);
            return subtract_once(r, m.q);
        }
        r = add(montgomery_signed(shift_right(r, kWordBits), r, m), m.q);
        return add_once(montgomery_product(r, factor_, m), m.q);
    }

    // So many quarters leave the Montgomery reduction in (-q, 3q).
    static constexpr std::uint64_t kFewQuarters = 12;

  private:
    __m512i reciprocal_, factor_;
    bool at_once_, in_word_;
};

}  // namespace
}  // namespace cipherblas
