// The inner loop of MO-HLT (FAME, Alg. 3): the sum of rotated, key-switched and weighted ciphertexts on one limb.
#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "ring/automorphism.h"
#include "ring/kernels/avx512ifma_math.h"
#include "ring/kernels/avx512ifma_sums.h"
#include "ring/packing.h"

namespace cipherblas::avx512ifma {

namespace {

// Words of one chunk: the accumulators (32 bytes per word) stay in the first-level cache while the terms stream past.
// Bit-reversed order maps an aligned chunk of the source to an aligned chunk, so one rotation reads one page per digit.
constexpr std::size_t kChunk = 256;
// A product adds less than 2^52 to each word of a sum. A sum's words stay below 2^63 for this many, and longer sums are
// cut: of the terms' sums, or of the products inside one term.
constexpr std::size_t kMaxProducts = 1024;
// Digits of a term that are read side by side: a processor follows only so many key streams at a time. Measured on Zen 4 and
// on Granite Rapids.
constexpr int kMaxStreams = 4;

// Keys and plaintexts of one call beyond this many bytes come from memory: then the next term's are fetched ahead. From
// a cache they come faster without.
constexpr std::size_t kPrefetchBytes = std::size_t{1} << 18;

// So many terms ahead, the first ones of the next chunk after the last.
constexpr std::size_t kTermsAhead = 2;

struct PairSums {
    Sum c0, c1;
};

// The same in memory, where it is not filled with zeros.
struct StoredSums {
    __m512i low0, high0, low1, high1;

    CIPHERBLAS_INLINE StoredSums& operator=(const PairSums& s) {
        low0 = s.c0.low;
        high0 = s.c0.high;
        low1 = s.c1.low;
        high1 = s.c1.high;
        return *this;
    }
    CIPHERBLAS_INLINE void add_to(PairSums& s) const {
        s.c0.low = add(s.c0.low, low0);
        s.c0.high = add(s.c0.high, high0);
        s.c1.low = add(s.c1.low, low1);
        s.c1.high = add(s.c1.high, high1);
    }
};

// To the second-level cache: a core waits for more lines there than in the first level, which has some 24 of them on their way.
// On Zen 4 that is 15 GB/s of keys instead of 10, where a single stream is read with 30.
CIPHERBLAS_INLINE void prefetch(const Word* p) {
    _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T1);
}

// What happens to the sums of a chunk before and after a term is added; out0 and out1 are the chunk's.
struct Step {
    bool first, last;
    bool present;  // what is in out is added
    const Reduction* reduce;
    Word* out0;
    Word* out1;
};

// Reads the words of a key's limbs, of BITS bits each.
template <int BITS>
struct KeyWords {
    static constexpr bool kBytes = BITS % 8 == 0;             // a word begins with a byte
    static constexpr int kWordBytes = (BITS + 7) / 8;         // which a word's bits are in
    static constexpr __mmask64 kAll = (Word{1} << BITS) - 1;  // bytes of eight words
    static constexpr __mmask8 kEight = 0xff;                  // words
    static constexpr __mmask64 kSpread = ((Word{1} << kWordBytes) - 1) * 0x0101'0101'0101'0101;
    struct alignas(64) Tables {
        std::array<unsigned char, 64> spread{};  // the byte where each byte of eight words stands
        std::array<Word, 8> shifts{};            // bits before a word
    };
    static constexpr Tables kTables = [] {
        Tables tables;
        for (std::size_t i = 0; i < 64; ++i) {
            tables.spread[i] = static_cast<unsigned char>(i / 8 * BITS / 8 + i % 8);
        }
        for (std::size_t i = 0; i < 8; ++i) tables.shifts[i] = i * BITS % 8;
        return tables;
    }();
    __m512i spread, shifts, mask;

    CIPHERBLAS_INLINE KeyWords()
        : spread(_mm512_load_si512(kTables.spread.data())),
          shifts(_mm512_load_si512(kTables.shifts.data())),
          mask(broadcast((Word{1} << BITS) - 1)) {}
    // LAST: nothing behind them. A masked load takes a port of the products.
    template <bool LAST>
    CIPHERBLAS_INLINE __m512i read(const Word* key, std::size_t i) const {
        const unsigned char* const at = packed_at(key, i, BITS);
        if constexpr (BITS == 32) {
            return _mm512_maskz_cvtepu32_epi64(kEight,
                                               _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
        }
        const __m512i bytes = LAST ? _mm512_maskz_loadu_epi8(kAll, at) : _mm512_loadu_si512(at);
        const __m512i words = _mm512_maskz_permutexvar_epi8(kSpread, spread, bytes);
        if constexpr (kBytes) return words;
        return _mm512_and_si512(_mm512_maskz_srlv_epi64(kEight, words, shifts), mask);
    }
};

// What is read next and fetched meanwhile: a term, `distance` words ahead.
struct NextTerm {
    const RotationTerm* term = nullptr;
    std::size_t distance = 0;

    CIPHERBLAS_INLINE void fetch(std::size_t i) const {
        const std::size_t at = i + distance;
        const std::size_t source =
            (term->permutation == nullptr ? at : std::size_t{term->permutation->blocks[at / 8] >> 3} * 8) -
            term->start;
        for (int j = 0; j < term->digit_count; ++j) {
            const std::size_t key_at = at * static_cast<std::size_t>(term->key_bits) / 64;
            prefetch(term->key0[j] + key_at);
            prefetch(term->key1[j] + key_at);
            if (term->permutation != nullptr) prefetch(term->digits[j] + source);
        }
        if (term->add0 != nullptr) prefetch(term->add0 + source);
        if (term->add1 != nullptr) prefetch(term->add1 + source);
        if (term->plaintext != nullptr) prefetch(term->plaintext + at);
    }
};

std::size_t products(const RotationTerm& term) { return static_cast<std::size_t>(term.digit_count) + 1; }

// The bound of a term's own sum, in the unit of Reduction: digits below 2^52 times words below q, and an addend q < 2^50.
std::uint64_t quarters(const RotationTerm& term) {
    return 4 * static_cast<std::uint64_t>(term.digit_count) + 1;
}

// The limbs of a term's digits and of its key: copied, because the compiler would read the pointers again for every vector.
template <int DIGITS>
struct DigitLimbs {
    std::array<const Word*, DIGITS> digits, key0, key1;

    CIPHERBLAS_INLINE explicit DigitLimbs(const RotationTerm& term) {
        std::copy_n(term.digits, DIGITS, digits.data());
        std::copy_n(term.key0, DIGITS, key0.data());
        std::copy_n(term.key1, DIGITS, key1.data());
    }
};

template <>
struct DigitLimbs<0> {
    const Word* const* digits;
    const Word* const* key0;
    const Word* const* key1;

    CIPHERBLAS_INLINE explicit DigitLimbs(const RotationTerm& term)
        : digits(term.digits), key0(term.key0), key1(term.key1) {}
};

// Where a term reads its limbs for the vector at a position.
template <bool ROTATED>
struct Place {
    std::size_t source = 0;
    __m512i order;

    CIPHERBLAS_INLINE void find(const RotationTerm& term, std::size_t i) {
        source = i;
        if constexpr (ROTATED) {
            const std::uint32_t block = term.permutation->blocks.data()[i / 8];
            source = std::size_t{block >> 3} * 8;
            order = load(term.permutation->lanes.data()[block & 7].data());
        }
        source -= term.start;
    }
    CIPHERBLAS_INLINE __m512i read(const Word* limb) const {
        const __m512i x = load(limb + source);
        if constexpr (ROTATED) return permute_lanes(x, order);
        return x;
    }
};

// What is constant in a term's loop.
template <int DIGITS, int BITS>
struct TermLoop {
    const RotationTerm& term;
    const NextTerm& next;
    const Step& step;
    StoredSums* sums;
    std::size_t start;
    Lanes m;
    DigitLimbs<DIGITS> limbs;
    KeyWords<BITS> key_words;
    Reduction reduce_term;
    __m512i add_factor;
    // Up to here a term's sum is a multiplicand after one Montgomery step: q + quarters * q / 4 <= 2^52.
    bool short_sum;

    CIPHERBLAS_INLINE TermLoop(StoredSums* chunk_sums, const RotationTerm& this_term,
                               const NextTerm& next_term, std::size_t first, const Step& this_step,
                               const Modulus& modulus)
        : term(this_term),
          next(next_term),
          step(this_step),
          sums(chunk_sums),
          start(first),
          m(modulus),
          limbs(this_term),
          reduce_term(modulus, quarters(this_term)),
          add_factor(broadcast(this_term.add_factor)),
          short_sum((quarters(this_term) + 4) * modulus.q <= (kWordMask + 1) * 4) {}

    // VECTORS of them side by side, from position i on. LAST: the last ones of all.
    template <int VECTORS, bool ROTATED, bool LAST>
    CIPHERBLAS_INLINE void run(std::size_t i) const {
        PairSums s[VECTORS];
        Place<ROTATED> place[VECTORS];
#pragma GCC unroll 4
        for (std::size_t v = 0; v < VECTORS; ++v) {
            if (next.term != nullptr) next.fetch(i + 8 * v);
            place[v].find(term, i + 8 * v);
        }
        const int digits = DIGITS > 0 ? DIGITS : term.digit_count;
#pragma GCC unroll 4
        for (std::size_t j = 0; j < static_cast<std::size_t>(digits); ++j) {
#pragma GCC unroll 4
            for (std::size_t v = 0; v < VECTORS; ++v) {
                const __m512i digit = place[v].read(limbs.digits[j]);
                const __m512i b = key_words.template read<LAST>(limbs.key0[j], i + 8 * v);
                const __m512i a = key_words.template read<LAST>(limbs.key1[j], i + 8 * v);
                s[v].c0.add_product(digit, b);
                s[v].c1.add_product(digit, a);
            }
        }
#pragma GCC unroll 4
        for (std::size_t v = 0; v < VECTORS; ++v) finish(s[v], place[v], i + 8 * v);
    }

  private:
    template <bool ROTATED>
    CIPHERBLAS_INLINE void finish(PairSums& s, const Place<ROTATED>& place, std::size_t i) const {
        const std::size_t at = i - start;
        if (term.add0 != nullptr) s.c0.add_product(place.read(term.add0), add_factor);
        if (term.add1 != nullptr) s.c1.add_product(place.read(term.add1), add_factor);
        if (term.plaintext != nullptr) {
            const __m512i x0 = short_sum ? add(s.c0.montgomery(m), m.q) : reduce_term(s.c0, m);
            const __m512i x1 = short_sum ? add(s.c1.montgomery(m), m.q) : reduce_term(s.c1, m);
            const __m512i plaintext = load(term.plaintext + i);
            s = PairSums();
            s.c0.add_product(x0, plaintext);
            s.c1.add_product(x1, plaintext);
        }
        if (!step.first) sums[at / 8].add_to(s);
        if (step.present) {  // times 2^52
            s.c0.high = add(s.c0.high, load(step.out0 + at));
            s.c1.high = add(s.c1.high, load(step.out1 + at));
        }
        if (step.last) {
            if (next.term != nullptr) {
                prefetch(step.out0 + at + kChunk);
                prefetch(step.out1 + at + kChunk);
            }
            store(step.out0 + at, (*step.reduce)(s.c0, m));
            store(step.out1 + at, (*step.reduce)(s.c1, m));
        } else {
            sums[at / 8] = s;
        }
    }
};

// DIGITS is the number of digits, or 0 for any number.
template <int DIGITS, int BITS>
void add_term(StoredSums* sums, const RotationTerm& term, const NextTerm& next, std::size_t start,
              std::size_t end, const Step& step, const Modulus& modulus) {
    const TermLoop<DIGITS, BITS> loop(sums, term, next, start, step, modulus);
    const auto run = [&]<bool ROTATED>(std::bool_constant<ROTATED>) {
        std::size_t i = start;
        for (; i + 16 < end; i += 16) loop.template run<2, ROTATED, false>(i);
        for (; i < end; i += 8) loop.template run<1, ROTATED, true>(i);
    };
    term.permutation == nullptr ? run(std::false_type()) : run(std::true_type());
}

template <int BITS>
void add_any_term(StoredSums* sums, const RotationTerm& term, const NextTerm& next, std::size_t start,
                  std::size_t end, const Step& step, const Modulus& modulus) {
    switch (term.digit_count) {
        case 1:
            return add_term<1, BITS>(sums, term, next, start, end, step, modulus);
        case 2:
            return add_term<2, BITS>(sums, term, next, start, end, step, modulus);
        case 3:
            return add_term<3, BITS>(sums, term, next, start, end, step, modulus);
        case 4:
            return add_term<4, BITS>(sums, term, next, start, end, step, modulus);
        default:
            return add_term<0, BITS>(sums, term, next, start, end, step, modulus);
    }
}

// The sum of `count` > 0 terms whose products are at most kMaxProducts together; accumulate: on top of what is in out.
void sum_terms(Word* out0, Word* out1, const RotationTerm* terms, std::size_t count, bool accumulate,
               std::size_t from, std::size_t to, const Modulus& modulus) {
    // A weighted term is below 2^52 q; another one is as its own bound says.
    std::uint64_t bound = accumulate ? 4 : 0;
    std::size_t streams = 0;
    for (std::size_t t = 0; t < count; ++t) {
        bound += terms[t].plaintext != nullptr ? 4 : quarters(terms[t]);
        streams +=
            2 * static_cast<std::size_t>(terms[t].digit_count) + (terms[t].plaintext != nullptr ? 1 : 0);
    }
    const bool ahead = streams * (to - from) * sizeof(Word) > kPrefetchBytes;
    const Reduction reduce(modulus, bound);
    StoredSums sums[kChunk / 8];
    for (std::size_t start = from; start < to; start += kChunk) {
        const std::size_t end = std::min(start + kChunk, to);
        Word* const chunk0 = out0 + (start - from);
        Word* const chunk1 = out1 + (start - from);
        for (std::size_t t = 0; t < count; ++t) {
            NextTerm next;
            const std::size_t ahead_term = (t + kTermsAhead) % count,
                              distance = (t + kTermsAhead) / count * kChunk;
            if (ahead && end + distance <= to) next = {terms + ahead_term, distance};
            const Step step{t == 0, t + 1 == count, accumulate && t == 0, &reduce, chunk0, chunk1};
            const int bits = terms[t].key_bits;
            const auto add = bits == 32   ? add_any_term<32>
                             : bits == 40 ? add_any_term<40>
                             : bits == 48 ? add_any_term<48>
                                          : add_any_term<50>;
            add(sums, terms[t], next, start, end, step, modulus);
        }
    }
}

// Cuts terms of many digits that have no plaintext into terms of at most kMaxStreams digits. False, and no parts, where
// there is nothing to cut.
bool split_long_terms(const RotationTerm* terms, std::size_t count, std::vector<RotationTerm>& parts) {
    const auto is_long = [](const RotationTerm& term) {
        return term.digit_count > kMaxStreams && term.plaintext == nullptr;
    };
    if (std::none_of(terms, terms + count, is_long)) return false;
    for (std::size_t t = 0; t < count; ++t) {
        RotationTerm part = terms[t];
        while (is_long(part)) {
            RotationTerm& first = parts.emplace_back(part);
            first.digit_count = kMaxStreams;
            part.digits += kMaxStreams;
            part.key0 += kMaxStreams;
            part.key1 += kMaxStreams;
            part.add0 = part.add1 = nullptr;
            part.digit_count -= kMaxStreams;
        }
        parts.push_back(part);
    }
    return true;
}

}  // namespace

void accumulate_terms(Word* out0, Word* out1, const RotationTerm* terms, std::size_t count, bool accumulate,
                      std::size_t begin, std::size_t end, const Modulus& m) {
    std::vector<RotationTerm> parts;
    if (split_long_terms(terms, count, parts)) {
        terms = parts.data();
        count = parts.size();
    }
    if (count == 0 && !accumulate) {
        std::fill_n(out0, end - begin, Word{0});
        std::fill_n(out1, end - begin, Word{0});
    }
    for (std::size_t first = 0; first < count;) {
        std::size_t last = first + 1;
        for (std::size_t sum = products(terms[first]); last < count; ++last) {
            sum += products(terms[last]);
            if (sum > kMaxProducts) break;
        }
        sum_terms(out0, out1, terms + first, last - first, accumulate || first > 0, begin, end, m);
        first = last;
    }
}

}  // namespace cipherblas::avx512ifma
