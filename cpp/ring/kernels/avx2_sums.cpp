// Sums of products over whole limbs, lazily reduced, in chunks whose accumulators stay in the first-level cache.
#include "ring/kernels/avx2_sums.h"

#include <algorithm>
#include <array>

#include "ring/automorphism.h"
#include "ring/kernels/avx2_math.h"
#include "ring/packing.h"

namespace cipherblas::avx2 {

namespace {

constexpr std::size_t kChunk = 256;

struct PairSums {
    Sum c0, c1;
};

struct TensorSums {
    Sum c0, c1, c2;
};

// 2^-52 mod q as a float64 factor.
double radix_inverse(const Modulus& m) { return static_cast<double>(montgomery_reduce(1, m)); }

// sum * factor, fully reduced.
CIPHERBLAS_INLINE __m256i finish(const Sum& sum, __m256d factor, const Lanes& m) {
    return to_residue(multiply(sum.folded(m), factor, m), m);
}

// Sums that start from present * scale, or from 0 without `present`.
CIPHERBLAS_INLINE Sum start_sum(const Word* present, __m256d scale, const Lanes& m) {
    Sum sum;
    if (present != nullptr) sum.low = multiply(load_words(present), scale, m);
    return sum;
}

}  // namespace

// A product y * factor is below 2^100, whatever q is.
void base_convert(Word* r, const Word* const* y, const Word* factor, int count, const Word* v,
                  Word overflow_factor, std::size_t n, const Modulus& modulus) {
    const Lanes m(modulus);
    const __m256d scale = broadcast(radix_inverse(modulus));
    for (std::size_t i = 0; i < n; i += 8) {
        Sum sums[2];
        for (int j = 0; j < count; ++j) {
            const __m256d f = broadcast(static_cast<double>(factor[j]));
            if (j > 0 && j % Sum::kMaxProducts == 0) {
                sums[0].fold(m);
                sums[1].fold(m);
            }
            sums[0].add_product(load_words(y[j] + i), f);
            sums[1].add_product(load_words(y[j] + i + 4), f);
        }
        if (v != nullptr) {  // the fifth product since the last fold at most
            const __m256d f = broadcast(static_cast<double>(overflow_factor));
            sums[0].add_product(load_words(v + i), f);
            sums[1].add_product(load_words(v + i + 4), f);
        }
        store(r + i, finish(sums[0], scale, m));
        store(r + i + 4, finish(sums[1], scale, m));
    }
}

void multiply_sum(Word* c0, Word* c1, Word* c2, const Word* const* a0, const Word* const* a1,
                  const Word* const* b0, const Word* const* b1, std::size_t count, bool accumulate, bool,
                  std::size_t n, const Modulus& modulus) {
    const Lanes m(modulus);
    const __m256d one = broadcast(1.0);
    TensorSums sums[kChunk / 4];
    for (std::size_t start = 0; start < n; start += kChunk) {
        const std::size_t size = std::min(kChunk, n - start);
        for (std::size_t i = 0; i < size; i += 4) {
            sums[i / 4].c0 = start_sum(accumulate ? c0 + start + i : nullptr, one, m);
            sums[i / 4].c1 = start_sum(accumulate ? c1 + start + i : nullptr, one, m);
            sums[i / 4].c2 = start_sum(accumulate ? c2 + start + i : nullptr, one, m);
        }
        for (std::size_t t = 0; t < count;
             t += 2) {  // two products each into c0 and c2, four into c1, then a fold
            const std::size_t end = std::min(t + 2, count);
            for (std::size_t i = 0; i < size; i += 4) {
                TensorSums s = sums[i / 4];
                for (std::size_t k = t; k < end; ++k) {
                    const __m256d x0 = load_words(a0[k] + start + i);
                    const __m256d x1 = load_words(a1[k] + start + i);
                    const __m256d y0 = load_words(b0[k] + start + i);
                    const __m256d y1 = load_words(b1[k] + start + i);
                    s.c0.add_product(x0, y0);
                    s.c1.add_product(x0, y1);
                    s.c1.add_product(x1, y0);
                    s.c2.add_product(x1, y1);
                }
                s.c0.fold(m);
                s.c1.fold(m);
                s.c2.fold(m);
                sums[i / 4] = s;
            }
        }
        for (std::size_t i = 0; i < size; i += 4) {
            store(c0 + start + i, finish(sums[i / 4].c0, one, m));
            store(c1 + start + i, finish(sums[i / 4].c1, one, m));
            store(c2 + start + i, finish(sums[i / 4].c2, one, m));
        }
    }
}

void multiply_plain_sum(Word* c0, Word* c1, const Word* const* p, const Word* const* b0,
                        const Word* const* b1, std::size_t count, bool accumulate, std::size_t n,
                        const Modulus& modulus) {
    const Lanes m(modulus);
    const __m256d scale = broadcast(radix_inverse(modulus));
    const __m256d radix = broadcast(static_cast<double>(modulus.r_mod_q));
    PairSums sums[kChunk / 4];
    for (std::size_t start = 0; start < n; start += kChunk) {
        const std::size_t size = std::min(kChunk, n - start);
        for (std::size_t i = 0; i < size; i += 4) {
            sums[i / 4].c0 = start_sum(accumulate ? c0 + start + i : nullptr, radix, m);
            sums[i / 4].c1 = start_sum(accumulate ? c1 + start + i : nullptr, radix, m);
        }
        for (std::size_t t = 0; t < count; t += Sum::kMaxProducts) {
            const std::size_t end = std::min(t + Sum::kMaxProducts, count);
            for (std::size_t i = 0; i < size; i += 4) {
                PairSums s = sums[i / 4];
                for (std::size_t k = t; k < end; ++k) {
                    const __m256d factor = load_words(p[k] + start + i);
                    s.c0.add_product(load_words(b0[k] + start + i), factor);
                    s.c1.add_product(load_words(b1[k] + start + i), factor);
                }
                s.c0.fold(m);
                s.c1.fold(m);
                sums[i / 4] = s;
            }
        }
        for (std::size_t i = 0; i < size; i += 4) {
            store(c0 + start + i, finish(sums[i / 4].c0, scale, m));
            store(c1 + start + i, finish(sums[i / 4].c1, scale, m));
        }
    }
}

// ---- the inner loop of MO-HLT (FAME, Alg. 3)

namespace {

// Four words of a rotated limb. Bit-reversed order maps aligned blocks of 4 to aligned blocks of 4, so they are one
// vector of the source in another order.
struct Rotated {
    std::size_t source;
    __m256i order;  // of 32-bit halves

    // start: where what is rotated begins.
    CIPHERBLAS_INLINE Rotated(const Permutation* p, std::size_t i, std::size_t start)
        : source(i - start), order() {
        order = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        if (p == nullptr) return;
        const std::uint32_t block = p->blocks.data()[i / 8];
        const Word* lanes = p->lanes.data()[block & 7].data() + i % 8;
        source = std::size_t{block >> 3} * 8 + (lanes[0] & 4) - start;
        // Lane l (mod 4) is the halves 2l and 2l + 1.
        const __m256i lane = _mm256_and_si256(load(lanes), broadcast(Word{3}));
        const __m256i low = _mm256_slli_epi64(lane, 1);
        const __m256i high = _mm256_or_si256(_mm256_slli_epi64(lane, 33), broadcast(Word{1} << 32));
        order = _mm256_or_si256(low, high);
    }
    CIPHERBLAS_INLINE __m256d operator()(const Word* limb) const {
        return to_real(_mm256_permutevar8x32_epi32(load(limb + source), order));
    }
};

// Words i to i + 3, a multiple of 4: 24 or 25 bytes, of which either half is read with some bytes of the other.
template <int BITS>
CIPHERBLAS_INLINE __m256d load_packed(const Word* packed, std::size_t i) {
    const unsigned char* const at = packed_at(packed, i, BITS);
    const auto* const low = reinterpret_cast<const __m128i*>(at);
    if constexpr (BITS == kNarrowBits) {
        const __m256i spread = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, -1, -1,  //
                                                4, 5, 6, 7, 8, 9, -1, -1, 10, 11, 12, 13, 14, 15, -1, -1);
        const auto* const high = reinterpret_cast<const __m128i*>(at + 8);
        return to_real(_mm256_shuffle_epi8(_mm256_loadu2_m128i(high, low), spread));
    } else {
        const __m256i spread = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, -1, 6, 7, 8, 9, 10, 11, 12, -1,  //
                                                3, 4, 5, 6, 7, 8, 9, -1, 9, 10, 11, 12, 13, 14, 15, -1);
        const auto* const high = reinterpret_cast<const __m128i*>(at + 9);
        const __m256i bytes = _mm256_shuffle_epi8(_mm256_loadu2_m128i(high, low), spread);
        const __m256i words = _mm256_srlv_epi64(bytes, _mm256_setr_epi64x(0, 2, 4, 6));
        return to_real(_mm256_and_si256(words, broadcast((Word{1} << BITS) - 1)));
    }
}

// sum_j digit_j key_j + addend add_factor, folded.
CIPHERBLAS_INLINE __m256d term_sum(const RotationTerm& term, const Word* const* key, const Word* addend,
                                   const Rotated& rotated, std::size_t i, __m256d add_factor,
                                   const Lanes& m) {
    Sum sum;
    for (int j = 0; j < term.digit_count; ++j) {
        if (j > 0 && j % Sum::kMaxProducts == 0) sum.fold(m);
        const __m256d words = term.key_bits == kNarrowBits ? load_packed<kNarrowBits>(key[j], i)
                                                           : load_packed<kWideBits>(key[j], i);
        sum.add_product(rotated(term.digits[j]), words);
    }
    if (addend != nullptr) sum.add_product(rotated(addend), add_factor);  // the fifth product at most
    return sum.folded(m);
}

}  // namespace

// A term without plaintext has the factor 1, in Montgomery form 2^52 mod q. Together with the keys' Montgomery form the
// sums carry the factor 2^104.
void accumulate_terms(Word* out0, Word* out1, const RotationTerm* terms, std::size_t count, bool accumulate,
                      std::size_t begin, std::size_t end, const Modulus& modulus) {
    const Lanes m(modulus);
    const Word inverse = montgomery_reduce(1, modulus);
    const __m256d scale = broadcast(static_cast<double>(mul_mod(inverse, inverse, modulus)));
    const __m256d radix = broadcast(static_cast<double>(modulus.r_mod_q));
    const __m256d radix_squared = broadcast(static_cast<double>(modulus.r2_mod_q));
    PairSums sums[kChunk / 4];
    for (std::size_t start = begin; start < end; start += kChunk) {
        const std::size_t size = std::min(kChunk, end - start);
        for (std::size_t i = 0; i < size; i += 4) {
            sums[i / 4].c0 = start_sum(accumulate ? out0 + start - begin + i : nullptr, radix_squared, m);
            sums[i / 4].c1 = start_sum(accumulate ? out1 + start - begin + i : nullptr, radix_squared, m);
        }
        for (std::size_t t = 0; t < count; ++t) {
            const RotationTerm& term = terms[t];
            const __m256d add_factor = broadcast(static_cast<double>(term.add_factor));
            const bool fold = t % Sum::kMaxProducts == Sum::kMaxProducts - 1;
            for (std::size_t i = 0; i < size; i += 4) {
                const std::size_t position = start + i;
                const Rotated rotated(term.permutation, position, term.start);
                const __m256d factor =
                    term.plaintext == nullptr ? radix : load_words(term.plaintext + position);
                PairSums s = sums[i / 4];
                s.c0.add_product(term_sum(term, term.key0, term.add0, rotated, position, add_factor, m),
                                 factor);
                s.c1.add_product(term_sum(term, term.key1, term.add1, rotated, position, add_factor, m),
                                 factor);
                if (fold) {
                    s.c0.fold(m);
                    s.c1.fold(m);
                }
                sums[i / 4] = s;
            }
        }
        for (std::size_t i = 0; i < size; i += 4) {
            store(out0 + start - begin + i, finish(sums[i / 4].c0, scale, m));
            store(out1 + start - begin + i, finish(sums[i / 4].c1, scale, m));
        }
    }
}

}  // namespace cipherblas::avx2
