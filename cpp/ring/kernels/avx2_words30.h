// Arithmetic modulo primes below 2^30, four or eight words at a time. Everything here has internal linkage, as in
// avx2_math.h.
#pragma once
#include "ring/kernels/avx2_math.h"
#include "ring/ntt.h"

namespace cipherblas {
namespace {

// Sums of products of words, added up as they are and reduced by Montgomery's method with 2^32: the arithmetic of
// avx2_sums.cpp.
struct Words30 {
    static constexpr int kBits = 30;
    using Value = __m256i;
    struct Sums {
        __m256i products, folded;
    };
    // Products of words below 2^30 since the last fold, up to 2^63. As a factor their sum is up to 3 * 2^30, and there are
    // fewer products with those.
    static constexpr int kMaxProducts = 8, kMaxFolded = 4;

    explicit Words30(const Modulus& modulus)
        : q(broadcast(modulus.q)), inverse(broadcast((Word{0} - modulus.q_inv) & 0xffffffff)) {}

    CIPHERBLAS_INLINE Value value(__m256i words) const { return words; }
    CIPHERBLAS_INLINE Value constant(Word x) const { return broadcast(x); }
    CIPHERBLAS_INLINE Sums none() const { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
    CIPHERBLAS_INLINE void add_product(Sums& sum, Value a, Value b) const {
        sum.products = _mm256_add_epi64(sum.products, _mm256_mul_epu32(a, b));
    }
    CIPHERBLAS_INLINE void fold(Sums& sum) const { sum = {_mm256_setzero_si256(), folded(sum)}; }
    CIPHERBLAS_INLINE Value folded(const Sums& sum) const {
        return _mm256_add_epi64(sum.folded, reduced(sum.products));
    }
    // Of sums times 2^(52 `words`), in which products went through folded() `folds` times.
    CIPHERBLAS_INLINE Value factor(int words, int folds, const Modulus& modulus) const {
        const int power = 32 * (3 + folds) - 52 * words;  // 24 to 96
        const Word high = (Word{1} << power / 2) % modulus.q, low = (Word{1} << (power + 1) / 2) % modulus.q;
        return constant(mul_mod(high, low, modulus));
    }
    CIPHERBLAS_INLINE __m256i finish(const Sums& sum, Value factor) const {
        const __m256i x = reduced(_mm256_mul_epu32(reduced(folded(sum)), factor));  // below 2q
        return _mm256_min_epu32(x, _mm256_sub_epi32(x, q));
    }

  private:
    // x * 2^-32 mod q, at most x * 2^-32 + q, for x up to 2^64 - 2^62.
    CIPHERBLAS_INLINE __m256i reduced(__m256i x) const {
        const __m256i multiple = _mm256_mul_epu32(_mm256_mul_epu32(x, inverse), q);
        return _mm256_srli_epi64(_mm256_add_epi64(x, multiple), 32);
    }

    __m256i q, inverse;
};

// Layers of the transform on eight 32-bit words at a time, by Shoup's products with 2^32: the arithmetic of avx2_ntt.cpp.
// Values are below 4q before a forward layer, and below 2q before an inverse one.
struct Layers30 {
    using Vector = __m256i;
    using Cell = std::uint32_t;
    static constexpr int kTail = 6;  // the last six layers, on 64 words
    static constexpr std::size_t kLanes = 8;

    // w in all words, and floor(w 2^32 / q) in the low halves of 64 bits: for even words, and for odd ones.
    struct Twiddle {
        __m256i w, even, odd;
    };

    explicit Layers30(const Modulus& m)
        : q(_mm256_set1_epi32(static_cast<int>(m.q))), twice(_mm256_set1_epi32(static_cast<int>(2 * m.q))) {}

    CIPHERBLAS_INLINE Vector load(const Cell* p) const {
        return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
    }
    CIPHERBLAS_INLINE void store(Cell* p, Vector v) const {
        _mm256_store_si256(reinterpret_cast<__m256i*>(p), v);
    }
    // The low halves of a and b: those of a's and b's first two words, then those of the others.
    CIPHERBLAS_INLINE static __m256i low_halves(__m256i a, __m256i b) { return shuffled<0x88>(a, b); }
    CIPHERBLAS_INLINE Vector load_words(const Word* p) const {
        return _mm256_permute4x64_epi64(low_halves(cipherblas::load(p), cipherblas::load(p + 4)), 0xd8);
    }
    // quotient: floor(w 2^52 / q), of which the upper 32 bits are floor(w 2^32 / q).
    CIPHERBLAS_INLINE static __m256i upper(__m256i quotient) { return _mm256_srli_epi64(quotient, 20); }
    CIPHERBLAS_INLINE Twiddle twiddle(const NttTable::Powers& roots, std::size_t index) const {
        const __m256i ratio = upper(broadcast(roots.quotient[index]));
        return {_mm256_set1_epi32(static_cast<int>(roots.plain[index])), ratio, ratio};
    }
    CIPHERBLAS_INLINE Twiddle constant(Word w, const Modulus& m) const {
        const __m256i ratio = upper(broadcast(shoup_quotient(w, m)));
        return {_mm256_set1_epi32(static_cast<int>(w)), ratio, ratio};
    }

    // x w modulo q, below 2q, for any x.
    CIPHERBLAS_INLINE __m256i multiply(__m256i x, const Twiddle& t) const {
        const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(x, t.even), 32);
        const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), t.odd);
        const __m256i quotient = _mm256_blend_epi32(even, odd, 0xaa);
        return _mm256_sub_epi32(_mm256_mullo_epi32(x, t.w), _mm256_mullo_epi32(quotient, q));
    }
    // x, or x - multiple where that is not negative.
    CIPHERBLAS_INLINE static __m256i less(__m256i x, __m256i multiple) {
        return _mm256_min_epu32(x, _mm256_sub_epi32(x, multiple));
    }

    CIPHERBLAS_INLINE Vector before_pass(Vector v) const { return v; }
    CIPHERBLAS_INLINE void forward_butterfly(Vector& even, Vector& odd, const Twiddle& w) const {
        const __m256i x = less(even, twice), product = multiply(odd, w);
        even = _mm256_add_epi32(x, product);
        odd = _mm256_sub_epi32(_mm256_add_epi32(x, twice), product);
    }
    CIPHERBLAS_INLINE void inverse_butterfly(Vector& even, Vector& odd, const Twiddle& w) const {
        const __m256i difference = _mm256_sub_epi32(_mm256_add_epi32(even, twice), odd);
        even = less(_mm256_add_epi32(even, odd), twice);
        odd = multiply(difference, w);
    }
    template <int LOG>
    CIPHERBLAS_INLINE void after_inverse(Vector*) const {}

    // Eight words below q as two vectors of words, in order.
    template <typename Finish>
    CIPHERBLAS_INLINE static void widened(std::size_t at, __m256i v, const Finish& finish) {
        finish(at, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(v)));
        finish(at + 4, _mm256_cvtepu32_epi64(_mm256_extracti128_si256(v, 1)));
    }
    template <typename Finish>
    CIPHERBLAS_INLINE void last_butterfly(std::size_t even_at, std::size_t odd_at, Vector even, Vector odd,
                                          const Twiddle& sums, const Twiddle& differences,
                                          const Finish& finish) const {
        const __m256i difference = _mm256_sub_epi32(_mm256_add_epi32(even, twice), odd);
        widened(even_at, less(multiply(_mm256_add_epi32(even, odd), sums), q), finish);
        widened(odd_at, less(multiply(difference, differences), q), finish);
    }

    // Four results below 4q, in 64 bits each, as words, or (a + result) * factor.
    CIPHERBLAS_INLINE __m256i words(__m256i v) const { return less(less(v, low(twice)), low(q)); }
    CIPHERBLAS_INLINE __m256i combined(__m256i v, const Word* a, const Twiddle& factor) const {
        const __m256i x = _mm256_add_epi64(cipherblas::load(a), less(v, low(twice)));
        const __m256i quotient = _mm256_srli_epi64(_mm256_mul_epu32(x, factor.even), 32);
        return less(_mm256_sub_epi64(_mm256_mul_epu32(x, factor.w), _mm256_mul_epu32(quotient, q)), low(q));
    }
    CIPHERBLAS_INLINE static __m256i low(__m256i v) { return _mm256_srli_epi64(v, 32); }

    // Two vectors hold 16 words a0..a7, b0..b7. The last three layers want all even partners in one vector and all odd ones
    // in the other:
    //   stride 4:  a0 a1 a2 a3 b0 b1 b2 b3 | a4 a5 a6 a7 b4 b5 b6 b7   twiddles  0 0 0 0 1 1 1 1
    //   stride 2:  a0 a1 a4 a5 b0 b1 b4 b5 | a2 a3 a6 a7 b2 b3 b6 b7   twiddles  0 0 1 1 2 2 3 3
    //   stride 1:  a0 a4 a2 a6 b0 b4 b2 b6 | a1 a5 a3 a7 b1 b5 b3 b7   twiddles  0 2 1 3 4 6 5 7
    template <int IMM>
    CIPHERBLAS_INLINE static __m256i shuffled(__m256i a, __m256i b) {
        return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), IMM));
    }
    CIPHERBLAS_INLINE static void exchange_halves(__m256i& a, __m256i& b) {  // natural order and stride 4
        const __m256i x = _mm256_permute2x128_si256(a, b, 0x20);
        b = _mm256_permute2x128_si256(a, b, 0x31);
        a = x;
    }
    CIPHERBLAS_INLINE static void interleave(__m256i& a, __m256i& b) {  // strides 4 and 2
        const __m256i x = _mm256_unpacklo_epi64(a, b);
        b = _mm256_unpackhi_epi64(a, b);
        a = x;
    }
    CIPHERBLAS_INLINE static void divide(__m256i& a, __m256i& b) {  // stride 2 to 1
        const __m256i x = shuffled<0x88>(a, b);
        b = shuffled<0xdd>(a, b);
        a = x;
    }
    CIPHERBLAS_INLINE static void unite(__m256i& a, __m256i& b) {  // stride 1 to 2
        const __m256i x = _mm256_unpacklo_epi32(a, b);
        b = _mm256_unpackhi_epi32(a, b);
        a = x;
    }
    CIPHERBLAS_INLINE static __m256i in_both_halves(__m256i words) {
        return _mm256_shuffle_epi32(words, 0b10100000);
    }
    CIPHERBLAS_INLINE static Twiddle stride_4(const NttTable::Powers& roots, std::size_t index) {
        const auto pairs = [](const Word* p) {
            const auto* const two = reinterpret_cast<const __m128i*>(p);
            return _mm256_permute4x64_epi64(_mm256_castsi128_si256(_mm_load_si128(two)), 0b01010000);
        };
        const __m256i ratio = upper(pairs(roots.quotient.data() + index));
        return {in_both_halves(pairs(roots.plain.data() + index)), ratio, ratio};
    }
    CIPHERBLAS_INLINE static Twiddle stride_2(const NttTable::Powers& roots, std::size_t index) {
        const __m256i ratio = upper(cipherblas::load(roots.quotient.data() + index));
        return {in_both_halves(cipherblas::load(roots.plain.data() + index)), ratio, ratio};
    }
    CIPHERBLAS_INLINE static Twiddle stride_1(const NttTable::Powers& roots, std::size_t index) {
        __m256i even = cipherblas::load(roots.plain.data() + index);
        __m256i odd = cipherblas::load(roots.plain.data() + index + 4);
        exchange_halves(even, odd);
        __m256i ratio = cipherblas::load(roots.quotient.data() + index);
        __m256i odd_ratio = cipherblas::load(roots.quotient.data() + index + 4);
        exchange_halves(ratio, odd_ratio);
        return {_mm256_or_si256(even, _mm256_slli_epi64(odd, 32)), upper(ratio), upper(odd_ratio)};
    }

    template <typename Layers, typename Finish>
    CIPHERBLAS_INLINE void forward_tail(const Cell* x, std::size_t at, std::size_t node,
                                        const NttTable::Powers& roots, const Layers& layers,
                                        const Finish& finish) const {
        __m256i v[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) v[i] = load(x + 8 * i);
        layers(v);
#pragma GCC unroll 4
        for (std::size_t i = 0; i < 8; i += 2) {
            __m256i &a = v[i], &b = v[i + 1];
            exchange_halves(a, b);
            forward_butterfly(a, b, stride_4(roots, 8 * node + i));
            interleave(a, b);
            forward_butterfly(a, b, stride_2(roots, 16 * node + 2 * i));
            divide(a, b);
            forward_butterfly(a, b, stride_1(roots, 32 * node + 4 * i));
            unite(a, b);
            interleave(a, b);
            exchange_halves(a, b);
            widened(at + 8 * i, a, finish);
            widened(at + 8 * i + 8, b, finish);
        }
    }
    template <typename Layers>
    CIPHERBLAS_INLINE void inverse_tail(Cell* x, const Word* from, std::size_t node,
                                        const NttTable::Powers& roots, const Layers& layers) const {
        __m256i v[8];
#pragma GCC unroll 4
        for (std::size_t i = 0; i < 8; i += 2) {
            __m256i &a = v[i], &b = v[i + 1];
            a = load_words(from + 8 * i);
            b = load_words(from + 8 * i + 8);
            exchange_halves(a, b);
            interleave(a, b);
            divide(a, b);
            inverse_butterfly(a, b, stride_1(roots, 32 * node + 4 * i));
            unite(a, b);
            inverse_butterfly(a, b, stride_2(roots, 16 * node + 2 * i));
            interleave(a, b);
            inverse_butterfly(a, b, stride_4(roots, 8 * node + i));
            exchange_halves(a, b);
        }
        layers(v);
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) store(x + 8 * i, v[i]);
    }

    __m256i q, twice;
};

}  // namespace
}  // namespace cipherblas
