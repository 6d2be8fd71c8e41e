// Modular arithmetic on four residues at a time as float64 integers, without rounding errors. Everything here has
// internal linkage: this code must never be the copy that a linker picks for a program that also runs on older CPUs.
//
// An integer of magnitude up to 2^53 is exact in float64, and fma(a, b, -(a * b rounded)) is the exact error of a
// product. The comments bound magnitudes in units of q < 2^50; values are signed residues, not reduced ones.
#pragma once
#include <immintrin.h>

#include <cmath>

#include "arith/modulus.h"

namespace cipherblas {
namespace {

using Word = std::uint64_t;

#define CIPHERBLAS_INLINE [[gnu::always_inline]] inline

CIPHERBLAS_INLINE __m256i load(const Word* p) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
}
CIPHERBLAS_INLINE void store(Word* p, __m256i v) { _mm256_store_si256(reinterpret_cast<__m256i*>(p), v); }
CIPHERBLAS_INLINE __m256i broadcast(Word x) { return _mm256_set1_epi64x(static_cast<long long>(x)); }
CIPHERBLAS_INLINE __m256d broadcast(double x) { return _mm256_set1_pd(x); }

// The same 32 bytes taken as float64.
CIPHERBLAS_INLINE __m256d load_real(const Word* p) {
    return _mm256_load_pd(reinterpret_cast<const double*>(p));
}
CIPHERBLAS_INLINE void store_real(Word* p, __m256d v) { _mm256_store_pd(reinterpret_cast<double*>(p), v); }

// Words below 2^52 <-> float64: 2^52 + x holds x in its lowest bits.
inline constexpr double kTwo52 = 0x1p52;
CIPHERBLAS_INLINE __m256d to_real(__m256i x) {
    const __m256d biased = _mm256_or_pd(_mm256_castsi256_pd(x), broadcast(kTwo52));
    return _mm256_sub_pd(biased, broadcast(kTwo52));
}
CIPHERBLAS_INLINE __m256i to_words(__m256d x) {
    const __m256d biased = _mm256_add_pd(x, broadcast(kTwo52));
    return _mm256_castpd_si256(_mm256_xor_pd(biased, broadcast(kTwo52)));
}
CIPHERBLAS_INLINE __m256d load_words(const Word* p) { return to_real(load(p)); }

// x, or `otherwise` where x is negative as an integer.
CIPHERBLAS_INLINE __m256i unless_negative(__m256i x, __m256i otherwise) {
    const __m256d value = _mm256_castsi256_pd(x);
    return _mm256_castpd_si256(_mm256_blendv_pd(value, _mm256_castsi256_pd(otherwise), value));
}

// x + q if x is negative, as integers.
CIPHERBLAS_INLINE __m256i add_if_negative(__m256i x, __m256i q) {
    return unless_negative(x, _mm256_add_epi64(x, q));
}

// The nearest integer to a * b, rounded once, for |a * b| <= 2^51.
CIPHERBLAS_INLINE __m256d rounded_product(__m256d a, __m256d b) {
    const __m256d magic = broadcast(0x1.8p52);
    return _mm256_sub_pd(_mm256_fmadd_pd(a, b, magic), magic);
}
CIPHERBLAS_INLINE __m256d nearest(__m256d x) {
    return _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// A modulus in registers.
struct Lanes {
    __m256d q, reciprocal;
    __m256i q_words;

    CIPHERBLAS_INLINE explicit Lanes(const Modulus& m)
        : q(broadcast(static_cast<double>(m.q))),
          reciprocal(broadcast(m.q_reciprocal)),
          q_words(broadcast(m.q)) {}
};

// A factor 0 <= w < q with w / q.
struct Factor {
    __m256d w, ratio;

    Factor() = default;  // none yet
    CIPHERBLAS_INLINE Factor(__m256d w_, __m256d ratio_) : w(w_), ratio(ratio_) {}
    CIPHERBLAS_INLINE Factor(__m256d w_, const Lanes& m) : w(w_), ratio(_mm256_mul_pd(w_, m.reciprocal)) {}
};

// x * w - c q for the nearest integer c to x * w / q, as computed, in two parts whose sum it is: high - c q and low.
// Exact: high - c q is an integer below 2^53, and so is the sum.
struct Product {
    __m256d high, low;

    // For |x| <= 2q, which is what rounded_product takes: two relative errors of 2^-53 put c off by at most
    // |x w / q| 2^-52, so the sum is at most q (1/2 + |x| 2^-52) < q in magnitude.
    CIPHERBLAS_INLINE Product(__m256d x, const Factor& f, const Lanes& m)
        : Product(x, f, rounded_product(x, f.ratio), m) {}

    // For |x| <= 8q: three relative errors, so the sum is at most q (1/2 + 1.5 |x| 2^-52) in magnitude.
    CIPHERBLAS_INLINE static Product of_large(__m256d x, const Factor& f, const Lanes& m) {
        return Product(x, f, nearest(_mm256_mul_pd(x, f.ratio)), m);
    }

  private:
    CIPHERBLAS_INLINE Product(__m256d x, const Factor& f, __m256d c, const Lanes& m) {
        const __m256d rounded = _mm256_mul_pd(x, f.w);
        low = _mm256_fmsub_pd(x, f.w, rounded);
        high = _mm256_fnmadd_pd(c, m.q, rounded);
    }
};

CIPHERBLAS_INLINE __m256d multiply(__m256d x, const Factor& f, const Lanes& m) {
    const Product product(x, f, m);
    return _mm256_add_pd(product.high, product.low);
}
CIPHERBLAS_INLINE __m256d multiply(__m256d x, __m256d w, const Lanes& m) {
    return multiply(x, Factor(w, m), m);
}

// x - c q in [-q/2, q/2] (up to one part in 2^49), for |x| < 8q, or any |x| < 2^53 with |x / q| <= 2^51.
CIPHERBLAS_INLINE __m256d reduce(__m256d x, const Lanes& m) {
    return _mm256_fnmadd_pd(rounded_product(x, m.reciprocal), m.q, x);
}

// The residue of an integer in (-q, q), as a word: 1.5 * 2^52 + x holds x in its lowest bits even where x is negative. The
// sign is that of a word, so that neither zero of float64 counts as negative.
CIPHERBLAS_INLINE __m256i to_residue(__m256d x, const Lanes& m) {
    const __m256d magic = broadcast(0x1.8p52);
    const __m256i biased = _mm256_castpd_si256(_mm256_add_pd(x, magic));
    const __m256i bias = _mm256_castpd_si256(magic);
    return unless_negative(_mm256_sub_epi64(biased, bias),
                           _mm256_add_epi64(biased, _mm256_sub_epi64(m.q_words, bias)));
}

// How a sum of products splits them: `bias` is 1.25 * 2^(bits + 3) for products below 2^bits. Adding it to a product rounds
// that to a multiple of 2^(bits - 49).
struct Split {
    __m256d bias;

    CIPHERBLAS_INLINE explicit Split(int bits) : bias(broadcast(std::ldexp(1.25, bits + 3))) {}
    CIPHERBLAS_INLINE explicit Split(const Modulus& m) : Split(2 * m.bits) {}
};

// Moduli of so many bits at most are narrow: quotients of sums of their products are known to a quarter.
inline constexpr int kNarrowModulus = 46;

// A lazily reduced sum of products of magnitude up to 2^bits, those of its Split. A product is split exactly into a multiple
// of 2^(bits - 49), collected in `high` beside the bias, and a rest of magnitude up to 2^(bits - 50), collected in `low`.
// fold() is due after kMaxProducts. `high` stays in the binade of the bias, or falls into the one below, where it is finer.
struct Sum {
    static constexpr int kMaxProducts = 4;
    __m256d high, low;

    Sum() = default;  // neither
    CIPHERBLAS_INLINE explicit Sum(const Split& split) : high(split.bias), low(_mm256_setzero_pd()) {}

    CIPHERBLAS_INLINE void add_product(__m256d a, __m256d b) {
        const __m256d next = _mm256_fmadd_pd(a, b, high);
        const __m256d top = _mm256_sub_pd(next, high);
        high = next;
        low = _mm256_add_pd(low, _mm256_fmsub_pd(a, b, top));
    }
    // The sum as one number. With up to 5 products of |a| < 2^50 and 0 <= b < q since the last fold,
    // |high / q| <= 1.25 * 2^52 * (1 + 1/q); three relative errors of 2^-53 and the rounding put c off by at most 2.5. So
    // |high - c q| <= 2.5 q, |low| <= 5.5 * 2^50, and all stays an exact integer up to 2^53. The quotients can pass 2^51
    // (the second one for small q only), where rounded_product ends. The last rounding is off by 3/q more: of magnitude up to
    // q/2 + 3.
    // narrow: q is and so is a, or the number is up to 4.3 q in magnitude: then c is that of high + low, off by at most
    // 15 * 2^-52 |a / q| 2^bits, that is 1/4, or 3.75 for |a| < 2^50.
    CIPHERBLAS_INLINE __m256d folded(const Split& split, const Lanes& m, bool narrow) const {
        const __m256d sum = _mm256_sub_pd(high, split.bias);
        if (narrow) {
            const __m256d c = nearest(_mm256_mul_pd(_mm256_add_pd(sum, low), m.reciprocal));
            return _mm256_add_pd(_mm256_fnmadd_pd(c, m.q, sum), low);
        }
        const __m256d c = nearest(_mm256_mul_pd(sum, m.reciprocal));
        const __m256d x = _mm256_add_pd(_mm256_fnmadd_pd(c, m.q, sum), low);
        return _mm256_fnmadd_pd(nearest(_mm256_mul_pd(x, m.reciprocal)), m.q, x);
    }
    CIPHERBLAS_INLINE void fold(const Split& split, const Lanes& m, bool narrow) {
        low = folded(split, m, narrow);
        high = split.bias;
    }
};

}  // namespace
}  // namespace cipherblas
