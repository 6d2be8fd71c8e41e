// Sums of products over whole limbs, with lazy reduction.
#include "ring/kernels/avx512ifma_sums.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ring/kernels/avx512ifma_math.h"
#include "ring/kernels/avx512ifma_ntt.h"
#include "ring/kernels/tables.h"

namespace cipherblas::avx512ifma {

namespace {

// Words of one chunk: its accumulators stay in the first-level cache while the terms stream past. The prefetchers of the
// CPU follow that many streams; prefetch instructions made it slower, from memory by a third.
constexpr std::size_t kChunk = 512;
// A sum word grows by less than 2^52 per product: it stays below 2^62 for this many, and longer sums are cut.
constexpr std::size_t kMaxTerms = 1024;
// Terms that share one round of loads and stores of the accumulators.
constexpr std::size_t kGroup = 4;

// ---- sum of products of ciphertexts

// By Karatsuba, c1 = (a0 + a1)(b0 + b1) - a0 b0 - a1 b1, with 3 products for 4: the factors are below 2q < 2^51.
struct TensorSums {
    Sum c0, c2, all;
};

struct TensorTerms {
    const Word* const* a0;
    const Word* const* a1;
    const Word* const* b0;
    const Word* const* b1;
};

// sum mod q: the reduction gives sum * 2^-52. FEW: at most Reduction::kFewQuarters.
template <bool FEW>
struct PlainReduction {
    Reduction reduce;
    __m512i factor;

    PlainReduction(const Modulus& m, std::uint64_t quarters)
        : reduce(m, quarters), factor(broadcast(m.r2_mod_q)) {}

    CIPHERBLAS_INLINE __m512i operator()(const Sum& sum, const Lanes& m) const {
        const __m512i reduced = FEW ? add(sum.montgomery(m), m.q) : reduce(sum, m);  // below 4q
        return add_once(montgomery_product(reduced, factor, m), m.q);
    }
};

template <std::size_t TERMS>
CIPHERBLAS_INLINE void add_terms(TensorSums& s, const TensorTerms& x, std::size_t t, std::size_t i) {
#pragma GCC unroll 4
    for (std::size_t k = t; k < t + TERMS; ++k) {
        const __m512i a0 = load(x.a0[k] + i);
        const __m512i a1 = load(x.a1[k] + i);
        const __m512i b0 = load(x.b0[k] + i);
        const __m512i b1 = load(x.b1[k] + i);
        s.c0.add_product(a0, b0);
        s.c2.add_product(a1, b1);
        s.all.add_product(add(a0, a1), add(b0, b1));
    }
}

// A single pair is four streams: fetched so many words ahead, beyond the page that the prefetchers of the CPU follow.
constexpr std::size_t kPairAhead = 512;

CIPHERBLAS_INLINE void fetch_pair(const TensorTerms& x, std::size_t i) {
    for (const Word* const* factor : {x.a0, x.a1, x.b0, x.b1}) {
        _mm_prefetch(reinterpret_cast<const char*>(factor[0] + i), _MM_HINT_T1);
    }
}

template <bool FEW, bool BYPASS>
void multiply_terms(Word* c0, Word* c1, Word* c2, const TensorTerms terms, std::size_t count, bool accumulate,
                    std::size_t n, const Modulus& modulus, std::uint64_t quarters) {
    const Lanes m(modulus);
    const PlainReduction<FEW> reduce(modulus, quarters);
    const auto put = [](Word* at, __m512i value) {
        BYPASS ? store_past_caches(at, value) : store(at, value);
    };
    TensorSums sums[kChunk / 8];
    for (std::size_t start = 0; start < n; start += kChunk) {
        const std::size_t end = std::min(start + kChunk, n);
        for (std::size_t t = 0; t == 0 || t < count;) {
            const std::size_t left = count - t;
            const std::size_t group = left >= kGroup ? kGroup : left > 0 ? 1 : 0;
            for (std::size_t i = start; i < end; i += 8) {
                if (count == 1 && i + kPairAhead < n) fetch_pair(terms, i + kPairAhead);
                TensorSums& stored = sums[(i - start) / 8];
                TensorSums s;
                if (t > 0) s = stored;
                if (group == kGroup) {
                    add_terms<kGroup>(s, terms, t, i);
                } else if (group == 1) {
                    add_terms<1>(s, terms, t, i);
                }
                if (left > group) {
                    stored = s;
                    continue;
                }
                Sum middle;
                middle.low = sub(s.all.low, add(s.c0.low, s.c2.low));
                middle.high = sub(s.all.high, add(s.c0.high, s.c2.high));
                if (accumulate) {
                    s.c0.low = add(s.c0.low, load(c0 + i));
                    middle.low = add(middle.low, load(c1 + i));
                    s.c2.low = add(s.c2.low, load(c2 + i));
                }
                put(c0 + i, reduce(s.c0, m));
                put(c1 + i, reduce(middle, m));
                put(c2 + i, reduce(s.c2, m));
            }
            t += std::max<std::size_t>(group, 1);
        }
    }
    if (BYPASS) _mm_sfence();
}

// sum mod q for a sum of up to two products of residues, by Barrett: as `mul`, with a top word below 2^(bits + 2) <= 2^52.
struct PairReduction {
    __m512i mu;
    __m128i up, down;

    explicit PairReduction(const Modulus& m)
        : mu(broadcast(m.mu)),
          up(_mm_cvtsi32_si128(kWordBits + 1 - m.bits)),
          down(_mm_cvtsi32_si128(m.bits - 1)) {}

    CIPHERBLAS_INLINE __m512i operator()(const Sum& sum, const Lanes& m) const {
        const __m512i top = add(_mm512_maskz_sll_epi64(kAllLanes, sum.high, up),
                                _mm512_maskz_srl_epi64(kAllLanes, sum.low, down));
        const __m512i rest = _mm512_and_si512(add_low(sum.low, high_product(top, mu), m.minus_q), m.mask);
        return subtract_once(subtract_once(rest, m.twice_q), m.q);
    }
};

// A single term needs no sums in memory.
template <bool BYPASS>
void multiply_pair(Word* c0, Word* c1, Word* c2, const TensorTerms terms, std::size_t n,
                   const Modulus& modulus) {
    const Lanes m(modulus);
    const PairReduction reduce(modulus);
    const auto put = [](Word* at, __m512i value) {
        BYPASS ? store_past_caches(at, value) : store(at, value);
    };
    const Word *const a0 = terms.a0[0], *const a1 = terms.a1[0];
    const Word *const b0 = terms.b0[0], *const b1 = terms.b1[0];
    for (std::size_t i = 0; i < n; i += 8) {
        if (i + kPairAhead < n) fetch_pair(terms, i + kPairAhead);
        const __m512i x0 = load(a0 + i), x1 = load(a1 + i), y0 = load(b0 + i), y1 = load(b1 + i);
        Sum s0, s1, s2;
        s0.add_product(x0, y0);
        s1.add_product(x0, y1);
        s1.add_product(x1, y0);
        s2.add_product(x1, y1);
        put(c0 + i, reduce(s0, m));
        put(c1 + i, reduce(s1, m));
        put(c2 + i, reduce(s2, m));
    }
    if (BYPASS) _mm_sfence();
}

}  // namespace

void multiply_sum(Word* c0, Word* c1, Word* c2, const Word* const* a0, const Word* const* a1,
                  const Word* const* b0, const Word* const* b1, std::size_t count, bool accumulate,
                  bool bypass, std::size_t n, const Modulus& modulus) {
    if (count == 1 && !accumulate) {
        return (bypass ? multiply_pair<true> : multiply_pair<false>)(c0, c1, c2, {a0, a1, b0, b1}, n,
                                                                     modulus);
    }
    if (count > kMaxTerms) {
        multiply_sum(c0, c1, c2, a0, a1, b0, b1, kMaxTerms, accumulate, false, n, modulus);
        const std::size_t rest = count - kMaxTerms;
        return multiply_sum(c0, c1, c2, a0 + kMaxTerms, a1 + kMaxTerms, b0 + kMaxTerms, b1 + kMaxTerms, rest,
                            true, false, n, modulus);
    }
    // c1 is the longest sum: 2 count products below q^2 < 2^50 q, and what it starts from, q < 2^50 q.
    const std::uint64_t quarters = 2 * count + 1;
    const bool few = quarters <= Reduction::kFewQuarters;
    const bool past = bypass && !accumulate;
    const auto run = few ? (past ? multiply_terms<true, true> : multiply_terms<true, false>)
                         : (past ? multiply_terms<false, true> : multiply_terms<false, false>);
    run(c0, c1, c2, {a0, a1, b0, b1}, count, accumulate, n, modulus, quarters);
}

// ---- sum of products of plaintexts and ciphertexts

namespace {

struct PairSums {
    Sum c0, c1;
};

// Eight words that need no alignment, of 64 bits or of 32.
CIPHERBLAS_INLINE __m512i load_factor(const Word* p) { return _mm512_loadu_si512(p); }
CIPHERBLAS_INLINE __m512i load_factor(const std::uint32_t* p) {
    return _mm512_maskz_cvtepu32_epi64(kAllLanes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

// The factors of eight positions: a word of each, or one of all, which stands for 2^shift of them.
template <typename Cell>
struct Each {
    CIPHERBLAS_INLINE __m512i at(const void* p, std::size_t i) const {
        return load_factor(static_cast<const Cell*>(p) + i);
    }
};
template <typename Cell>
struct Repeated {
    int shift;

    CIPHERBLAS_INLINE __m512i at(const void* p, std::size_t i) const {
        Cell word;
        std::memcpy(&word, static_cast<const Cell*>(p) + (i >> shift), sizeof word);
        return broadcast(word);
    }
};

template <std::size_t TERMS, typename Factors>
CIPHERBLAS_INLINE void add_terms(PairSums& s, const Factors& factors, const void* const* p,
                                 const Word* const* b0, const Word* const* b1, std::size_t t, std::size_t i) {
#pragma GCC unroll 4
    for (std::size_t k = t; k < t + TERMS; ++k) {
        const __m512i factor = factors.at(p[k], i);
        s.c0.add_product(factor, load(b0[k] + i));
        s.c1.add_product(factor, load(b1[k] + i));
    }
}

}  // namespace

namespace {

// quarters: of 2^52 q, that each product is at most.
template <typename Factors>
void multiply_plains(const Factors& factors, Word* c0, Word* c1, const void* const* p, const Word* const* b0,
                     const Word* const* b1, std::size_t count, bool accumulate, std::size_t n,
                     const Modulus& modulus, std::uint64_t quarters) {
    const Lanes m(modulus);
    // Beside the products what the sum starts from, 2^52 q.
    const Reduction reduce(modulus, count * quarters + 4);
    PairSums sums[kChunk / 8];
    for (std::size_t start = 0; start < n; start += kChunk) {
        const std::size_t end = std::min(start + kChunk, n);
        for (std::size_t t = 0; t == 0 || t < count;) {
            const std::size_t left = count - t;
            const std::size_t group = left >= kGroup ? kGroup : left > 0 ? 1 : 0;
            for (std::size_t i = start; i < end; i += 8) {
                PairSums& stored = sums[(i - start) / 8];
                PairSums s;
                if (t > 0) s = stored;
                if (group == kGroup) {
                    add_terms<kGroup>(s, factors, p, b0, b1, t, i);
                } else if (group == 1) {
                    add_terms<1>(s, factors, p, b0, b1, t, i);
                }
                if (left > group) {
                    stored = s;
                    continue;
                }
                if (accumulate) {
                    s.c0.high = add(s.c0.high, load(c0 + i));
                    s.c1.high = add(s.c1.high, load(c1 + i));
                }
                store(c0 + i, reduce(s.c0, m));
                store(c1 + i, reduce(s.c1, m));
            }
            t += std::max<std::size_t>(group, 1);
        }
    }
}

}  // namespace

void multiply_plain_sum(Word* c0, Word* c1, const void* const* p, std::size_t halves, std::size_t repeats,
                        const Word* const* b0, const Word* const* b1, std::size_t count, bool accumulate,
                        std::size_t n, const Modulus& modulus) {
    const auto run = [&](const auto& factors) {
        std::size_t start = 0;
        do {  // products are below q^2 < 2^50 q
            const std::size_t held = std::min(kMaxTerms, count - start);
            multiply_plains(factors, c0, c1, p + start, b0 + start, b1 + start, held, accumulate || start > 0,
                            n, modulus, 1);
            start += held;
        } while (start < count);
    };
    const int shift = std::countr_zero(repeats);
    if (halves == 1) {
        shift == 0 ? run(Each<std::uint32_t>()) : run(Repeated<std::uint32_t>{shift});
    } else {
        shift == 0 ? run(Each<Word>()) : run(Repeated<Word>{shift});
    }
}

namespace {

// Two blocks of 64 words at a time: transforms of all terms are in the first-level cache when they are multiplied, and sums
// in registers.
constexpr std::size_t kUnit = 128;

void multiply_unit(Word* c0, Word* c1, const Word* transforms, const Word* const* b0, const Word* const* b1,
                   std::size_t count, bool accumulate, std::size_t start, const Lanes& m,
                   const Reduction& reduce) {
    for (std::size_t i = 0; i < kUnit; i += 8) {
        PairSums s;
        for (std::size_t t = 0; t < count; ++t) {
            const __m512i factor = load(transforms + t * kUnit + i);
            s.c0.add_product(factor, load(b0[t] + start + i));
            s.c1.add_product(factor, load(b1[t] + start + i));
        }
        Word* const at0 = c0 + start + i;
        Word* const at1 = c1 + start + i;
        if (accumulate) {
            s.c0.high = add(s.c0.high, load(at0));
            s.c1.high = add(s.c1.high, load(at1));
        }
        store(at0, reduce(s.c0, m));
        store(at1, reduce(s.c1, m));
    }
}

}  // namespace

void multiply_short_sum(Word* c0, Word* c1, const Word* const* p, std::size_t size, const Word* const* b0,
                        const Word* const* b1, std::size_t count, bool accumulate, std::size_t first,
                        std::size_t n, Word* scratch, const NttTable& table) {
    if (n % kUnit != 0 || table.log_n <= 6) {
        return scalar_table()->multiply_short_sum(c0, c1, p, size, b0, b1, count, accumulate, first, n,
                                                  scratch, table);
    }
    constexpr std::size_t kMostShort = 64;
    // Transforms are not reduced, but below 2^52: products are below 2^52 q, and so is what the sum starts from.
    const Lanes m(table.modulus);
    std::size_t start = 0;
    do {
        const std::size_t held = std::min(kMostShort, count - start);
        const bool more = accumulate || start > 0;
        if (size <= 64) {
            const Reduction reduce(table.modulus, 4 * held + 4);
            for (std::size_t at = 0; at < n; at += kUnit) {
                ntt_of_shorts(scratch, p + start, held, size, first + at, kUnit, table);
                multiply_unit(c0, c1, scratch, b0 + start, b1 + start, held, more, at, m, reduce);
            }
        } else {
            const void* transforms[kMostShort];
            for (std::size_t t = 0; t < held; ++t) transforms[t] = scratch + t * n;
            ntt_of_shorts(scratch, p + start, held, size, first, n, table);
            multiply_plains(Each<Word>(), c0, c1, transforms, b0 + start, b1 + start, held, more, n,
                            table.modulus, 4);
        }
        start += held;
    } while (start < count);
}

}  // namespace cipherblas::avx512ifma
