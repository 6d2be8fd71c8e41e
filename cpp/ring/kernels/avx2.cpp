// The AVX2 table, and its kernels that go through a limb word by word.
#include "ring/automorphism.h"
#include "ring/kernels/avx2_lift.h"
#include "ring/kernels/avx2_math.h"
#include "ring/kernels/avx2_ntt.h"
#include "ring/kernels/avx2_sums.h"
#include "ring/kernels/gaussian.h"
#include "ring/kernels/row_butterfly.h"
#include "ring/kernels/tables.h"
#include "ring/kernels/undivided.h"
#include "ring/kernels/uniform.h"

namespace cipherblas {

namespace avx2 {

void mul(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& modulus) {
    const Lanes m(modulus);
    for (std::size_t i = 0; i < n; i += 4) {
        store(r + i, to_residue(multiply(load_words(a + i), load_words(b + i), m), m));
    }
}

namespace {

void add(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& m) {
    const __m256i q = broadcast(m.q);
    for (std::size_t i = 0; i < n; i += 4) {
        const __m256i sum = _mm256_add_epi64(load(a + i), load(b + i));
        store(r + i, add_if_negative(_mm256_sub_epi64(sum, q), q));
    }
}

void sub(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& m) {
    const __m256i q = broadcast(m.q);
    for (std::size_t i = 0; i < n; i += 4) {
        store(r + i, add_if_negative(_mm256_sub_epi64(load(a + i), load(b + i)), q));
    }
}

void neg(Word* r, const Word* a, std::size_t n, const Modulus& m) {
    const __m256i q = broadcast(m.q);
    for (std::size_t i = 0; i < n; i += 4) {
        store(r + i, add_if_negative(_mm256_sub_epi64(_mm256_setzero_si256(), load(a + i)), q));
    }
}

void mul_mont(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& modulus) {
    const Lanes m(modulus);
    const __m256d scale = broadcast(static_cast<double>(montgomery_reduce(1, modulus)));
    for (std::size_t i = 0; i < n; i += 4) {
        const __m256d product = multiply(load_words(a + i), load_words(b + i), m);
        store(r + i, to_residue(multiply(product, scale, m), m));
    }
}

void mul_scalar(Word* r, const Word* a, Word c, std::size_t n, const Modulus& modulus) {
    const Lanes m(modulus);
    const __m256d factor = broadcast(static_cast<double>(c % modulus.q));
    for (std::size_t i = 0; i < n; i += 4) {
        store(r + i, to_residue(multiply(load_words(a + i), factor, m), m));
    }
}

void add_mul_scalar(Word* r, const Word* a, const Word* b, Word c, std::size_t n, const Modulus& modulus) {
    const Lanes m(modulus);
    const __m256d factor = broadcast(static_cast<double>(c % modulus.q));
    for (std::size_t i = 0; i < n; i += 4) {
        const __m256d sum = _mm256_add_pd(load_words(a + i), load_words(b + i));
        store(r + i, to_residue(multiply(sum, factor, m), m));
    }
}

void from_signed(Word* r, const std::int64_t* a, std::size_t n, const Modulus& modulus) {
    const Lanes m(modulus);
    const Lift lift(1, modulus);
    for (std::size_t i = 0; i < n; i += 4) {
        Sum sum(lift.split);
        lift.add_to(sum, load_signed(a + i));
        store(r + i, to_residue(lift.sum(sum, m), m));
    }
}

void permute(Word* r, const Word* a, const Permutation& p, std::size_t n) {
    const std::uint32_t* index = p.index.data();
    for (std::size_t i = 0; i < n; ++i) r[i] = a[index[i]];
}

void base_overflow(Word* v, const Word* const* y, const double* reciprocal, int count, std::size_t n) {
    for (std::size_t i = 0; i < n; i += 8) {
        __m256d sums[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
        for (int j = 0; j < count; ++j) {
            const __m256d factor = broadcast(reciprocal[j]);
            sums[0] = _mm256_add_pd(sums[0], _mm256_mul_pd(load_words(y[j] + i), factor));
            sums[1] = _mm256_add_pd(sums[1], _mm256_mul_pd(load_words(y[j] + i + 4), factor));
        }
        store(v + i, to_words(_mm256_floor_pd(_mm256_add_pd(sums[0], broadcast(0.5)))));
        store(v + i + 4, to_words(_mm256_floor_pd(_mm256_add_pd(sums[1], broadcast(0.5)))));
    }
}

void multiply_short_sum(Word* c0, Word* c1, const Word* const* p, std::size_t size, const Word* const* b0,
                        const Word* const* b1, std::size_t count, bool accumulate, std::size_t first,
                        std::size_t n, Word* scratch, const NttTable& table) {
    const bool toy = size < 4 || n % 32 != 0 || table.log_n <= 5;
    const auto run = toy ? scalar_table()->multiply_short_sum
                         : undivided::multiply_short_sum<ntt_of_short, multiply_plain_sum>;
    run(c0, c1, p, size, b0, b1, count, accumulate, first, n, scratch, table);
}

void prepare_words(Word* r, const Word* y, std::size_t n) {
    for (std::size_t i = 0; i < n; i += 4) store_real(r + i, load_words(y + i));
}

void base_convert_ntt(Word* r, const ConversionPiece& piece, const ConversionFactors& f, bool bypass,
                      const NttTable& table) {
    const auto run = piece.prepared ? undivided::base_convert_ntt<base_convert_prepared>
                                    : undivided::base_convert_ntt<base_convert>;
    run(r, piece, f, bypass, table);
}

constexpr Kernels kTable = {
    .name = "avx2",
    .ntt = ntt,
    .intt = intt,
    .ntt_of_signed = ntt_of_signed,
    .intt_scaled = intt_scaled,
    .add = add,
    .sub = sub,
    .neg = neg,
    .mul = mul,
    .mul_mont = mul_mont,
    .mul_scalar = mul_scalar,
    .add_mul_scalar = add_mul_scalar,
    .from_signed = from_signed,
    .gaussian = noise::gaussian<noise::Signed4>,
    .uniform = residues::uniform,
    .permute = permute,
    .base_overflow = base_overflow,
    .base_convert = base_convert,
    .scaled_sum = base_convert,
    .ntt_parts = undivided::ntt_parts,
    .prepare_words = prepare_words,
    .base_convert_ntt = base_convert_ntt,
    .order_stores = undivided::order_stores,
    .ntt_part = ntt_part,
    .ntt_part_add_mul_scalar = ntt_part_add_mul_scalar,
    .multiply_sum = multiply_sum,
    .multiply_plain_sum = multiply_plain_sum,
    .multiply_short_sum = multiply_short_sum,
    .accumulate_terms = accumulate_terms,
    .row_butterfly = rows::row_butterfly<rows::Words4>,
};

}  // namespace

}  // namespace avx2

const Kernels* avx2_table() { return &avx2::kTable; }

}  // namespace cipherblas
