// Sums of products over whole limbs, lazily reduced, in chunks whose accumulators stay in the first-level cache.
#include "ring/kernels/avx2_sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "ring/automorphism.h"
#include "ring/kernels/avx2_math.h"
#include "ring/kernels/avx2_words30.h"
#include "ring/packing.h"

namespace cipherblas::avx2 {

namespace {

constexpr std::size_t kChunk = 256;

// The arithmetic of sums of products: `Value` is a factor, `Sums` are what is added up. folded() is a sum as a factor, and
// finish() is the residue of a sum, each times a power of two that factor() makes up for. Words30 is another.
template <bool NARROW>
struct Reals {  // error-free float64, see avx2_math.h
    using Value = __m256d;
    using Sums = Sum;
    static constexpr int kMaxProducts = Sum::kMaxProducts, kMaxFolded = Sum::kMaxProducts;

    explicit Reals(const Modulus& modulus) : m(modulus), split(modulus) {}

    CIPHERBLAS_INLINE Value value(__m256i words) const { return to_real(words); }
    CIPHERBLAS_INLINE Value constant(Word x) const { return broadcast(static_cast<double>(x)); }
    CIPHERBLAS_INLINE Sums none() const { return Sum(split); }
    CIPHERBLAS_INLINE void add_product(Sums& sum, Value a, Value b) const { sum.add_product(a, b); }
    CIPHERBLAS_INLINE void fold(Sums& sum) const { sum.fold(split, m, NARROW); }
    CIPHERBLAS_INLINE Value folded(const Sums& sum) const { return sum.folded(split, m, NARROW); }
    // Of sums times 2^(52 `words`), in which products went through folded() `folds` times.
    CIPHERBLAS_INLINE Value factor(int words, int, const Modulus& modulus) const {
        Word result = 1;
        for (int k = 0; k < words; ++k) result = montgomery_reduce(result, modulus);
        return constant(result);
    }
    CIPHERBLAS_INLINE __m256i finish(const Sums& sum, Value factor) const {
        return to_residue(multiply(folded(sum), factor, m), m);
    }

    Lanes m;
    Split split;
};

// body(arithmetic) with the fastest one for the modulus; small: whether Words30 will do.
template <typename Body>
CIPHERBLAS_INLINE void with_arithmetic(const Modulus& m, bool small, const Body& body) {
    if (small && m.bits <= Words30::kBits) return body(Words30(m));
    if (m.bits <= kNarrowModulus) return body(Reals<true>(m));
    body(Reals<false>(m));
}

// r = x, or r + x modulo q.
template <bool ADD>
CIPHERBLAS_INLINE void store_sum(Word* r, __m256i x, __m256i q) {
    if constexpr (ADD) x = add_if_negative(_mm256_sub_epi64(_mm256_add_epi64(load(r), x), q), q);
    store(r, x);
}

template <typename Sums>
struct Pair {
    Sums c0, c1;
};

// Of eight words.
template <typename A>
CIPHERBLAS_INLINE void fold(Pair<typename A::Sums> (&sums)[2], const A& by) {
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
        by.fold(sums[k].c0);
        by.fold(sums[k].c1);
    }
}

template <bool ADD, typename A>
void multiply_sum_by(const A& by, Word* c0, Word* c1, Word* c2, const Word* const* a0, const Word* const* a1,
                     const Word* const* b0, const Word* const* b1, std::size_t count, std::size_t n,
                     const Modulus& modulus) {
    const __m256i q = broadcast(modulus.q);
    const typename A::Value one = by.factor(0, 0, modulus);
    struct {
        typename A::Sums c0, c1, c2;
    } sums[kChunk / 4];
    for (std::size_t start = 0; start < n; start += kChunk) {
        const std::size_t size = std::min(kChunk, n - start);
        for (std::size_t i = 0; i < size / 4; ++i) sums[i] = {by.none(), by.none(), by.none()};
        for (std::size_t t = 0; t < count; t += 2) {  // two products each into c0 and c2, four into c1
            const std::size_t end = std::min(t + 2, count);
            for (std::size_t i = 0; i < size; i += 4) {
                auto s = sums[i / 4];
                if (t > 0) {
                    by.fold(s.c0);
                    by.fold(s.c1);
                    by.fold(s.c2);
                }
                for (std::size_t k = t; k < end; ++k) {
                    const auto x0 = by.value(load(a0[k] + start + i)), x1 = by.value(load(a1[k] + start + i));
                    const auto y0 = by.value(load(b0[k] + start + i)), y1 = by.value(load(b1[k] + start + i));
                    by.add_product(s.c0, x0, y0);
                    by.add_product(s.c1, x0, y1);
                    by.add_product(s.c1, x1, y0);
                    by.add_product(s.c2, x1, y1);
                }
                sums[i / 4] = s;
            }
        }
        for (std::size_t i = 0; i < size; i += 4) {
            store_sum<ADD>(c0 + start + i, by.finish(sums[i / 4].c0, one), q);
            store_sum<ADD>(c1 + start + i, by.finish(sums[i / 4].c1, one), q);
            store_sum<ADD>(c2 + start + i, by.finish(sums[i / 4].c2, one), q);
        }
    }
}

constexpr std::size_t kTogether = 4;  // plaintexts that are read side by side

// Four words that need no alignment, of 64 bits or of 32.
CIPHERBLAS_INLINE __m256i load_factor(const Word* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
CIPHERBLAS_INLINE __m256i load_factor(const std::uint32_t* p) {
    return _mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// The factors of four positions: a word of each, or one of all, which stands for 2^shift of them.
template <typename Cell>
struct Each {
    using Type = Cell;
    CIPHERBLAS_INLINE __m256i at(const Cell* p, std::size_t i) const { return load_factor(p + i); }
};
template <typename Cell>
struct Repeated {
    using Type = Cell;
    int shift;

    CIPHERBLAS_INLINE __m256i at(const Cell* p, std::size_t i) const {
        Cell word;
        std::memcpy(&word, p + (i >> shift), sizeof word);
        return broadcast(Word{word});
    }
};

// Adds terms to the sums of `size` words; full: these hold as many products as they may. Pointers stay in registers.
template <std::size_t TERMS, typename Factors, typename A>
void add_terms(const A& by, const Factors& read, Pair<typename A::Sums>* sums, const void* const* p,
               const Word* const* b0, const Word* const* b1, std::size_t start, std::size_t size, bool full) {
    const typename Factors::Type* factors[TERMS];
    const Word *x0[TERMS], *x1[TERMS];
#pragma GCC unroll 4
    for (std::size_t k = 0; k < TERMS; ++k) {
        factors[k] = static_cast<const typename Factors::Type*>(p[k]);
        x0[k] = b0[k] + start;
        x1[k] = b1[k] + start;
    }
    for (std::size_t i = 0; i < size; i += 4) {
        auto s = sums[i / 4];
        if (full) {
            by.fold(s.c0);
            by.fold(s.c1);
        }
#pragma GCC unroll 4
        for (std::size_t k = 0; k < TERMS; ++k) {
            const auto factor = by.value(read.at(factors[k], start + i));
            by.add_product(s.c0, by.value(load(x0[k] + i)), factor);
            by.add_product(s.c1, by.value(load(x1[k] + i)), factor);
        }
        sums[i / 4] = s;
    }
}

template <bool ADD, typename Factors, typename A>
void multiply_plain_sum_by(const A& by, const Factors& read, Word* c0, Word* c1, const void* const* p,
                           const Word* const* b0, const Word* const* b1, std::size_t count, std::size_t n,
                           const Modulus& modulus) {
    const __m256i q = broadcast(modulus.q);
    const typename A::Value scale = by.factor(1, 0, modulus);
    constexpr decltype(&add_terms<1, Factors, A>) kAdd[kTogether] = {
        add_terms<1, Factors, A>, add_terms<2, Factors, A>, add_terms<3, Factors, A>,
        add_terms<4, Factors, A>};
    Pair<typename A::Sums> sums[kChunk / 4];
    for (std::size_t start = 0; start < n; start += kChunk) {
        const std::size_t size = std::min(kChunk, n - start);
        for (std::size_t i = 0; i < size / 4; ++i) sums[i] = {by.none(), by.none()};
        for (std::size_t t = 0; t < count; t += kTogether) {
            const auto add = kAdd[std::min(kTogether, count - t) - 1];
            add(by, read, sums, p + t, b0 + t, b1 + t, start, size, t > 0 && t % A::kMaxProducts == 0);
        }
        for (std::size_t i = 0; i < size; i += 4) {
            store_sum<ADD>(c0 + start + i, by.finish(sums[i / 4].c0, scale), q);
            store_sum<ADD>(c1 + start + i, by.finish(sums[i / 4].c1, scale), q);
        }
    }
}

// Sums of products y * factor below 2^(50 + bits): what is folded may be up to 4.3 q.
template <bool NARROW, bool PREPARED>
struct Conversion {
    const Word* const* y;
    const double* factor;
    int count;
    Lanes m;
    Split split;
    Factor scale;

    // The words i to i + 4 VECTORS - 1.
    template <int VECTORS>
    CIPHERBLAS_INLINE void run(Word* r, std::size_t i) const {
        Sum sums[VECTORS];
#pragma GCC unroll 4
        for (Sum& sum : sums) sum = Sum(split);
        for (int j = 0; j < count; ++j) {
            const __m256d f = broadcast(factor[j]);
#pragma GCC unroll 4
            for (int k = 0; k < VECTORS; ++k) {
                if (j > 0 && j % Sum::kMaxProducts == 0) sums[k].fold(split, m, NARROW);
                const Word* const words = y[j] + i + 4 * k;
                sums[k].add_product(PREPARED ? load_real(words) : load_words(words), f);
            }
        }
#pragma GCC unroll 4
        for (int k = 0; k < VECTORS; ++k) {
            const Product x = Product::of_large(sums[k].folded(split, m, NARROW), scale, m);
            store(r + i + 4 * k, to_residue(_mm256_add_pd(x.high, x.low), m));
        }
    }
};

template <bool NARROW, bool PREPARED>
void convert(Word* r, const Word* const* y, const double* factor, int count, std::size_t n,
             const Modulus& m) {
    const Lanes lanes(m);
    const Factor scale(broadcast(static_cast<double>(montgomery_reduce(1, m))), lanes);
    const Conversion<NARROW, PREPARED> conversion{y,    factor, count, lanes, Split(kMaxModulusBits + m.bits),
                                                  scale};
    std::size_t i = 0;
    for (; i + 16 <= n; i += 16) conversion.template run<4>(r, i);
    for (; i < n; i += 8) conversion.template run<2>(r, i);
}

template <bool PREPARED>
void convert_all(Word* r, const Word* const* y, const Word* factor, int count, const Word* v,
                 Word overflow_factor, std::size_t n, const Modulus& m) {
    constexpr std::size_t kMost = 64 + 1;  // sources and the overflow
    std::array<const Word*, kMost> words;
    std::array<double, kMost> factors;
    std::copy_n(y, count, words.begin());
    std::copy_n(factor, count, factors.begin());
    if (v != nullptr) {
        words[static_cast<std::size_t>(count)] = v;
        factors[static_cast<std::size_t>(count++)] = static_cast<double>(overflow_factor);
    }
    const auto run = m.bits <= kNarrowModulus ? convert<true, PREPARED> : convert<false, PREPARED>;
    run(r, words.data(), factors.data(), count, n, m);
}

}  // namespace

void base_convert(Word* r, const Word* const* y, const Word* factor, int count, const Word* v,
                  Word overflow_factor, std::size_t n, const Modulus& m) {
    convert_all<false>(r, y, factor, count, v, overflow_factor, n, m);
}

void base_convert_prepared(Word* r, const Word* const* y, const Word* factor, int count, const Word* v,
                           Word overflow_factor, std::size_t n, const Modulus& m) {
    convert_all<true>(r, y, factor, count, v, overflow_factor, n, m);
}

void multiply_sum(Word* c0, Word* c1, Word* c2, const Word* const* a0, const Word* const* a1,
                  const Word* const* b0, const Word* const* b1, std::size_t count, bool accumulate, bool,
                  std::size_t n, const Modulus& m) {
    with_arithmetic(m, true, [&](const auto& by) {
        using A = std::decay_t<decltype(by)>;
        const auto run = accumulate ? multiply_sum_by<true, A> : multiply_sum_by<false, A>;
        run(by, c0, c1, c2, a0, a1, b0, b1, count, n, m);
    });
}

void multiply_plain_sum(Word* c0, Word* c1, const void* const* p, std::size_t halves, std::size_t repeats,
                        const Word* const* b0, const Word* const* b1, std::size_t count, bool accumulate,
                        std::size_t n, const Modulus& m) {
    const auto run = [&](const auto& read) {
        using Factors = std::decay_t<decltype(read)>;
        with_arithmetic(m, true, [&](const auto& by) {
            using A = std::decay_t<decltype(by)>;
            const auto sum = accumulate ? multiply_plain_sum_by<true, Factors, A>
                                        : multiply_plain_sum_by<false, Factors, A>;
            sum(by, read, c0, c1, p, b0, b1, count, n, m);
        });
    };
    const int shift = std::countr_zero(repeats);
    if (halves == 1) {
        shift == 0 ? run(Each<std::uint32_t>()) : run(Repeated<std::uint32_t>{shift});
    } else {
        shift == 0 ? run(Each<Word>()) : run(Repeated<Word>{shift});
    }
}

// ---- the inner loop of MO-HLT (FAME, Alg. 3)

namespace {

// How eight words are read from a rotated limb. Bit-reversed order maps aligned blocks of 8 to aligned blocks of 8, and their
// halves to halves, whose words come in another order.
class Rotation {
  public:
    struct Words {
        std::size_t source[2];
        __m256i order[2];  // of 32-bit halves

        CIPHERBLAS_INLINE __m256i of(const Word* limb, int half) const {
            return _mm256_permutevar8x32_epi32(load(limb + source[half]), order[half]);
        }
    };

    // start: where what is rotated begins.
    Rotation(const Permutation* p, std::size_t start)
        : blocks_(p == nullptr ? nullptr : p->blocks.data()), start_(start) {
        for (std::size_t kind = 0; kind < 8; ++kind) {
            for (std::size_t l = 0; l < 8; ++l) {
                const Word lane = p == nullptr ? l : p->lanes[kind][l];
                if (l % 4 == 0) kinds_[kind].half[l / 4] = lane & 4;
                kinds_[kind].order[2 * l] = static_cast<std::uint32_t>(2 * (lane & 3));
                kinds_[kind].order[2 * l + 1] = static_cast<std::uint32_t>(2 * (lane & 3) + 1);
            }
        }
    }
    CIPHERBLAS_INLINE Words at(std::size_t i) const {
        const std::size_t block = blocks_ == nullptr ? i : blocks_[i / 8];
        const Kind& kind = kinds_[block & 7];
        const std::size_t from = (block >> 3) * 8 - start_;
        const auto* const order = reinterpret_cast<const __m256i*>(kind.order.data());
        return {{from + kind.half[0], from + kind.half[1]},
                {_mm256_load_si256(order), _mm256_load_si256(order + 1)}};
    }

  private:
    struct Kind {
        alignas(32) std::array<std::uint32_t, 16> order;
        std::array<std::size_t, 2> half;
    };
    std::array<Kind, 8> kinds_;
    const std::uint32_t* blocks_;
    std::size_t start_;
};

// Four words: 16 to 25 bytes, of which either half is read with some bytes of the other.
template <int BITS>
CIPHERBLAS_INLINE __m256i load_packed(const unsigned char* at) {
    const auto* const low = reinterpret_cast<const __m128i*>(at);
    if constexpr (BITS == 32) {
        return _mm256_cvtepu32_epi64(_mm_loadu_si128(low));
    } else if constexpr (BITS == 40) {
        const __m256i spread = _mm256_setr_epi8(0, 1, 2, 3, 4, -1, -1, -1, 5, 6, 7, 8, 9, -1, -1, -1,  //
                                                6, 7, 8, 9, 10, -1, -1, -1, 11, 12, 13, 14, 15, -1, -1, -1);
        const auto* const high = reinterpret_cast<const __m128i*>(at + 4);
        return _mm256_shuffle_epi8(_mm256_loadu2_m128i(high, low), spread);
    } else if constexpr (BITS == 48) {
        const __m256i spread = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, -1, -1,  //
                                                4, 5, 6, 7, 8, 9, -1, -1, 10, 11, 12, 13, 14, 15, -1, -1);
        const auto* const high = reinterpret_cast<const __m128i*>(at + 8);
        return _mm256_shuffle_epi8(_mm256_loadu2_m128i(high, low), spread);
    } else {
        const __m256i spread = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, -1, 6, 7, 8, 9, 10, 11, 12, -1,  //
                                                3, 4, 5, 6, 7, 8, 9, -1, 9, 10, 11, 12, 13, 14, 15, -1);
        const auto* const high = reinterpret_cast<const __m128i*>(at + 9);
        const __m256i bytes = _mm256_shuffle_epi8(_mm256_loadu2_m128i(high, low), spread);
        const __m256i words = _mm256_srlv_epi64(bytes, _mm256_setr_epi64x(0, 2, 4, 6));
        return _mm256_and_si256(words, broadcast((Word{1} << BITS) - 1));
    }
}

// sums[k].c (+)= sum_j digit_j key_j + addend add_factor of component c at the positions i + 4k to i + 4k + 3: eight words in
// all, so that there is always something to do while sums wait for products. At most kMaxProducts digits and an addend are
// added without a fold.
template <int BITS, typename A>
CIPHERBLAS_INLINE void add_term(Pair<typename A::Sums> (&sums)[2], const A& by, const RotationTerm& term,
                                const Rotation& rotation, std::size_t i, typename A::Value add_factor) {
    const Rotation::Words words = rotation.at(i);
    for (int j = 0; j < term.digit_count; ++j) {
        if (j > 0 && j % A::kMaxProducts == 0) fold(sums, by);
        const Word* const digit = term.digits[j];
        const unsigned char* const key0 = packed_at(term.key0[j], i, BITS);
        const unsigned char* const key1 = packed_at(term.key1[j], i, BITS);
#pragma GCC unroll 2
        for (int k = 0; k < 2; ++k) {
            const auto x = by.value(words.of(digit, k));
            by.add_product(sums[k].c0, x, by.value(load_packed<BITS>(key0 + k * (BITS / 2))));
            by.add_product(sums[k].c1, x, by.value(load_packed<BITS>(key1 + k * (BITS / 2))));
        }
    }
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
        if (term.add0 != nullptr) by.add_product(sums[k].c0, by.value(words.of(term.add0, k)), add_factor);
        if (term.add1 != nullptr) by.add_product(sums[k].c1, by.value(words.of(term.add1, k)), add_factor);
    }
}

// Where the sums of eight words go.
template <bool ADD, typename A>
CIPHERBLAS_INLINE void finish(const Pair<typename A::Sums>* sums, const A& by, typename A::Value scale,
                              Word* out0, Word* out1, __m256i q) {
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
        store_sum<ADD>(out0 + 4 * k, by.finish(sums[k].c0, scale), q);
        store_sum<ADD>(out1 + 4 * k, by.finish(sums[k].c1, scale), q);
    }
}

// PLAIN: products with plaintexts. A term without has the factor 1, in Montgomery form 2^52 mod q. Together with the keys'
// Montgomery form the sums carry the factor 2^104, otherwise 2^52.
template <bool ADD, bool PLAIN, typename A>
struct Accumulation {
    using Sums = Pair<typename A::Sums>;

    Accumulation(const A& by_, const Modulus& m)
        : by(by_),
          q(broadcast(m.q)),
          scale(PLAIN ? by.factor(2, 1, m) : by.factor(1, 0, m)),
          radix(by.constant(m.r_mod_q)) {}

    // A single term, without a plaintext: nothing to keep.
    template <int BITS>
    void run_one(Word* out0, Word* out1, const RotationTerm& term, std::size_t begin, std::size_t end) const {
        const A local = by;
        const Rotation rotation(term.permutation, term.start);
        const typename A::Value add_factor = local.constant(term.add_factor);
        for (std::size_t i = begin; i < end; i += 8) {
            Sums sums[2] = {none(), none()};
            add_term<BITS>(sums, local, term, rotation, i, add_factor);
            finish<ADD>(sums, local, scale, out0 + i - begin, out1 + i - begin, q);
        }
    }
    // sums += term at the positions from `start` on.
    template <int BITS>
    void add(Sums* sums, const RotationTerm& term, std::size_t start, std::size_t size, bool folds) const {
        const A local = by;
        const Rotation rotation(term.permutation, term.start);
        const typename A::Value add_factor = local.constant(term.add_factor);
        for (std::size_t i = 0; i < size; i += 8) {
            Sums to[2] = {sums[i / 4], sums[i / 4 + 1]};
            if (folds) fold(to, local);
            if constexpr (PLAIN) {
                Sums of_term[2] = {none(), none()};
                add_term<BITS>(of_term, local, term, rotation, start + i, add_factor);
#pragma GCC unroll 2
                for (std::size_t k = 0; k < 2; ++k) {
                    auto factor = radix;
                    if (term.plaintext != nullptr) {
                        factor = local.value(load(term.plaintext + start + i + 4 * k));
                    }
                    local.add_product(to[k].c0, local.folded(of_term[k].c0), factor);
                    local.add_product(to[k].c1, local.folded(of_term[k].c1), factor);
                }
            } else {
                add_term<BITS>(to, local, term, rotation, start + i, add_factor);
            }
            sums[i / 4] = to[0];
            sums[i / 4 + 1] = to[1];
        }
    }
    void run(Word* out0, Word* out1, const RotationTerm* terms, std::size_t count, std::size_t begin,
             std::size_t end) const {
        if (!PLAIN && count == 1) {
            const int bits = terms->key_bits;
            const auto run = bits == 32   ? &Accumulation::template run_one<32>
                             : bits == 40 ? &Accumulation::template run_one<40>
                             : bits == 48 ? &Accumulation::template run_one<48>
                                          : &Accumulation::template run_one<50>;
            return (this->*run)(out0, out1, *terms, begin, end);
        }
        Sums sums[kChunk / 4];
        for (std::size_t start = begin; start < end; start += kChunk) {
            const std::size_t size = std::min(kChunk, end - start);
            std::fill_n(sums, size / 4, none());
            for (std::size_t t = 0; t < count; ++t) {
                const bool folds = t > 0 && (!PLAIN || t % A::kMaxFolded == 0);
                const int bits = terms[t].key_bits;
                const auto add = bits == 32   ? &Accumulation::template add<32>
                                 : bits == 40 ? &Accumulation::template add<40>
                                 : bits == 48 ? &Accumulation::template add<48>
                                              : &Accumulation::template add<50>;
                (this->*add)(sums, terms[t], start, size, folds);
            }
            for (std::size_t i = 0; i < size; i += 8) {
                const std::size_t at = start - begin + i;
                finish<ADD>(sums + i / 4, by, scale, out0 + at, out1 + at, q);
            }
        }
    }

  private:
    CIPHERBLAS_INLINE Sums none() const { return {by.none(), by.none()}; }

    A by;
    __m256i q;
    typename A::Value scale, radix;
};

}  // namespace

void accumulate_terms(Word* out0, Word* out1, const RotationTerm* terms, std::size_t count, bool accumulate,
                      std::size_t begin, std::size_t end, const Modulus& m) {
    const auto all = std::span(terms, count);
    const bool few = std::ranges::all_of(
        all, [](const RotationTerm& term) { return term.digit_count < Words30::kMaxProducts; });
    const bool plain =
        std::ranges::any_of(all, [](const RotationTerm& term) { return term.plaintext != nullptr; });
    with_arithmetic(m, few, [&](const auto& by) {
        using A = std::decay_t<decltype(by)>;
        const auto run = [&](const auto& sums) { sums.run(out0, out1, terms, count, begin, end); };
        if (plain && accumulate) return run(Accumulation<true, true, A>(by, m));
        if (plain) return run(Accumulation<false, true, A>(by, m));
        if (accumulate) return run(Accumulation<true, false, A>(by, m));
        run(Accumulation<false, false, A>(by, m));
    });
}

}  // namespace cipherblas::avx2
