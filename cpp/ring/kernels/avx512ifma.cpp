// The AVX-512 IFMA table, and its kernels that go through a limb word by word.
#include "ring/automorphism.h"
#include "ring/kernels/avx512ifma_convert.h"
#include "ring/kernels/avx512ifma_lift.h"
#include "ring/kernels/avx512ifma_math.h"
#include "ring/kernels/avx512ifma_ntt.h"
#include "ring/kernels/avx512ifma_sums.h"
#include "ring/kernels/gaussian.h"
#include "ring/kernels/row_butterfly.h"
#include "ring/kernels/tables.h"
#include "ring/kernels/uniform.h"

namespace cipherblas {

namespace avx512ifma {

namespace {

void add_limbs(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& modulus) {
    const __m512i q = broadcast(modulus.q);
    for (std::size_t i = 0; i < n; i += 8) store(r + i, subtract_once(add(load(a + i), load(b + i)), q));
}

void sub_limbs(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& modulus) {
    const __m512i q = broadcast(modulus.q);
    for (std::size_t i = 0; i < n; i += 8) store(r + i, add_once(sub(load(a + i), load(b + i)), q));
}

void neg(Word* r, const Word* a, std::size_t n, const Modulus& modulus) {
    const __m512i q = broadcast(modulus.q);
    for (std::size_t i = 0; i < n; i += 8) store(r + i, subtract_once(sub(q, load(a + i)), q));
}

// Barrett, as in the scalar table: with b = bits, the estimate floor(floor(t / 2^(b-1)) * mu / 2^52) of t / q is less
// than 3 too small. floor(t / 2^(b-1)) < 2^(b+1) comes from the two words of t; t - estimate * q < 3q < 2^52.
void mul(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& modulus) {
    const Lanes m(modulus);
    const __m512i mu = broadcast(modulus.mu);
    const __m128i down = _mm_cvtsi32_si128(modulus.bits - 1);
    const __m128i up = _mm_cvtsi32_si128(kWordBits + 1 - modulus.bits);
    for (std::size_t i = 0; i < n; i += 8) {
        const __m512i x = load(a + i);
        const __m512i y = load(b + i);
        const __m512i low = low_product(x, y);
        const __m512i high = high_product(x, y);
        const __m512i top = _mm512_or_si512(_mm512_maskz_sll_epi64(kAllLanes, high, up),
                                            _mm512_maskz_srl_epi64(kAllLanes, low, down));
        const __m512i rest = _mm512_and_si512(add_low(low, high_product(top, mu), m.minus_q), m.mask);
        store(r + i, subtract_once(subtract_once(rest, m.twice_q), m.q));
    }
}

void mul_mont(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& modulus) {
    const Lanes m(modulus);
    for (std::size_t i = 0; i < n; i += 8) {
        store(r + i, add_once(montgomery_product(load(a + i), load(b + i), m), m.q));
    }
}

struct Factor {
    __m512i w, quotient;

    Factor(Word c, const Modulus& m)
        : w(broadcast(c % m.q)),
          quotient(broadcast(static_cast<Word>((static_cast<u128>(c % m.q) << kWordBits) / m.q))) {}
};

void mul_scalar(Word* r, const Word* a, Word c, std::size_t n, const Modulus& modulus) {
    const Lanes m(modulus);
    const Factor f(c, modulus);
    for (std::size_t i = 0; i < n; i += 8) {
        store(r + i, subtract_once(shoup_product(load(a + i), f.w, f.quotient, m), m.q));
    }
}

void add_mul_scalar(Word* r, const Word* a, const Word* b, Word c, std::size_t n, const Modulus& modulus) {
    const Lanes m(modulus);
    const Factor f(c, modulus);
    for (std::size_t i = 0; i < n; i += 8) {
        const __m512i sum = add(load(a + i), load(b + i));
        store(r + i, subtract_once(shoup_product(sum, f.w, f.quotient, m), m.q));
    }
}

void from_signed(Word* r, const std::int64_t* a, std::size_t n, const Modulus& modulus) {
    lift(r, a, 1, n, modulus);
}

// The first layer of a symmetric transform is a sum of two numbers of a, and half of the others is left out.
void ntt_of_signed(Word* r, const std::int64_t* a, Word factor, bool symmetric, const NttTable& table) {
    if (!can_mirror(table)) return scalar_table()->ntt_of_signed(r, a, factor, symmetric, table);
    const std::size_t n = std::size_t{1} << table.log_n;
    if (!symmetric) {
        lift(r, a, factor, n, table.modulus);
        return ntt(r, table);
    }
    const Word root = table.modulus.q - table.roots.plain[1];
    lift_mirrored(r, a, factor, mul_mod(root, factor, table.modulus), n / 2, table.modulus);
    ntt_mirrored(r, table);
}

void permute(Word* r, const Word* a, const Permutation& p, std::size_t n) {
    const std::uint32_t* blocks = p.blocks.data();
    for (std::size_t i = 0; i < n; i += 8) {
        const std::uint32_t block = blocks[i / 8];
        store(r + i, permute_lanes(load(a + std::size_t{block >> 3} * 8), load(p.lanes[block & 7].data())));
    }
}

template <int VECTORS>
CIPHERBLAS_INLINE void overflow(Word* v, const Word* const* y, const double* reciprocal, int count,
                                std::size_t i) {
    __m512d sums[VECTORS];
#pragma GCC unroll 8
    for (int k = 0; k < VECTORS; ++k) sums[k] = _mm512_setzero_pd();
    for (int j = 0; j < count; ++j) {
        const __m512d factor = _mm512_set1_pd(reciprocal[j]);
#pragma GCC unroll 8
        for (int k = 0; k < VECTORS; ++k) {
            const __m512d term = _mm512_maskz_cvtepu64_pd(kAllLanes, load(y[j] + i + 8 * k));
            sums[k] = _mm512_add_pd(sums[k], _mm512_mul_pd(term, factor));
        }
    }
#pragma GCC unroll 8
    for (int k = 0; k < VECTORS; ++k) {
        const __m512d rounded = _mm512_add_pd(sums[k], _mm512_set1_pd(0.5));
        store(v + i + 8 * k, _mm512_maskz_cvttpd_epu64(kAllLanes, rounded));
    }
}

void base_overflow(Word* v, const Word* const* y, const double* reciprocal, int count, std::size_t n) {
    std::size_t i = 0;
    for (; i + 64 <= n; i += 64) overflow<8>(v, y, reciprocal, count, i);
    for (; i < n; i += 8) overflow<1>(v, y, reciprocal, count, i);
}

std::size_t uniform(Word* r, const Word* words, std::size_t n, const Modulus& modulus) {
    const Lanes m(modulus);
    std::size_t i = 0;
    // Of a word / q below 2^48 the estimate by doubles, a little too small, is the quotient or one less.
    if (modulus.q >> 16 != 0) {
        const __m512i limit = broadcast(residues::quotient_of(modulus) * modulus.q);
        const __m512d reciprocal = _mm512_set1_pd(modulus.q_reciprocal * (1 - 0x1p-50));
        for (; i + 8 <= n; i += 8) {
            const __m512i word = _mm512_loadu_si512(words + i);
            if (_mm512_cmpge_epu64_mask(word, limit) != 0) break;
            const __m512d ratio = _mm512_mul_pd(_mm512_maskz_cvtepu64_pd(kAllLanes, word), reciprocal);
            const __m512i product = low_product(_mm512_maskz_cvttpd_epu64(kAllLanes, ratio), m.q);
            const __m512i residue = _mm512_and_si512(sub(word, product), m.mask);  // below 2q < 2^52
            _mm512_storeu_si512(r + i, subtract_once(residue, m.q));
        }
    }
    return i + residues::uniform(r + i, words + i, n - i, modulus);
}

constexpr Kernels kTable = {
    .name = "avx512ifma",
    .ntt = ntt,
    .intt = intt,
    .ntt_of_signed = ntt_of_signed,
    .intt_scaled = intt_scaled,
    .add = add_limbs,
    .sub = sub_limbs,
    .neg = neg,
    .mul = mul,
    .mul_mont = mul_mont,
    .mul_scalar = mul_scalar,
    .add_mul_scalar = add_mul_scalar,
    .from_signed = from_signed,
    .gaussian = noise::gaussian<noise::Signed8>,
    .uniform = uniform,
    .permute = permute,
    .base_overflow = base_overflow,
    .base_convert = base_convert,
    .scaled_sum = base_convert,
    .ntt_parts = ntt_parts,
    .prepare_words = nullptr,
    .base_convert_ntt = base_convert_ntt,
    .order_stores = order_stores,
    .ntt_part = ntt_part,
    .ntt_part_add_mul_scalar = ntt_part_add_mul_scalar,
    .multiply_sum = multiply_sum,
    .multiply_plain_sum = multiply_plain_sum,
    .multiply_short_sum = multiply_short_sum,
    .accumulate_terms = accumulate_terms,
    .row_butterfly = rows::row_butterfly<rows::Words8>,
};

}  // namespace

}  // namespace avx512ifma

const Kernels* avx512ifma_table() { return &avx512ifma::kTable; }

}  // namespace cipherblas
