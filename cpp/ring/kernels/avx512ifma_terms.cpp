// The inner loop of MO-HLT (FAME, Alg. 3): the sum of rotated, key-switched and weighted ciphertexts on one limb.
#include <algorithm>
#include <array>
#include <vector>

#include "arith/cpu.h"
#include "ring/automorphism.h"
#include "ring/kernels/avx512ifma_math.h"
#include "ring/kernels/avx512ifma_sums.h"

namespace cipherblas::avx512ifma {

namespace {

// Words of one chunk: the accumulators (32 bytes per word) stay in the first-level cache while the terms stream past.
// Bit-reversed order maps an aligned chunk of the source to an aligned chunk, so one rotation reads one page per digit.
constexpr std::size_t kChunk = 256;
// A product adds less than 2^52 to each word of a sum. A sum's words stay below 2^63 for this many, and longer sums are
// cut: of the terms' sums, or of the products inside one term.
constexpr std::size_t kMaxProducts = 1024;
// Digits of a term that are read side by side: a processor follows only so many key streams at a time. Measured on Zen 5
// (2) and on Granite Rapids.
int max_streams() { return cpu_is_intel() ? 4 : 2; }

// Keys and plaintexts of one call beyond this many bytes come from memory: then the next term's are fetched ahead. From
// a cache they come faster without.
constexpr std::size_t kPrefetchBytes = std::size_t{1} << 18;

// So many terms ahead, the first ones of the next chunk after the last.
constexpr std::size_t kTermsAhead = 2;

struct PairSums {
    Sum c0, c1;
};

CIPHERBLAS_INLINE void prefetch(const Word* p) {
    _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
}

// What happens to the sums of a chunk before and after a term is added; out0 and out1 are the chunk's.
struct Step {
    bool first, last;
    const Reduction* reduce;
    Word* out0;
    Word* out1;
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
            prefetch(term->key0[j] + at);
            prefetch(term->key1[j] + at);
            if (term->permutation != nullptr) prefetch(term->digits[j] + source);
        }
        if (term->add0 != nullptr) prefetch(term->add0 + source);
        if (term->add1 != nullptr) prefetch(term->add1 + source);
        if (term->plaintext != nullptr) prefetch(term->plaintext + at);
    }
};

std::size_t products(const RotationTerm& term) { return static_cast<std::size_t>(term.digit_count) + 1; }

// The bound of a term's own sum, in the unit of Reduction: products of words below q, one of them q < 2^50.
std::uint64_t quarters(const RotationTerm& term) { return products(term); }

// DIGITS is the number of digits, or 0 for any number.
template <int DIGITS>
void add_term(PairSums* sums, const RotationTerm& term, const NextTerm& next, std::size_t start,
              std::size_t end, const Step& step, const Modulus& modulus) {
    const Lanes m(modulus);
    const int digits = DIGITS > 0 ? DIGITS : term.digit_count;
    const Reduction reduce_term(modulus, quarters(term));
    const __m512i add_factor = broadcast(term.add_factor);
    // Up to here a term's sum is a multiplicand after one Montgomery step: q + quarters * q / 4 <= 4q < 2^52.
    const bool short_sum = quarters(term) <= 12;
    const std::uint32_t* blocks = term.permutation == nullptr ? nullptr : term.permutation->blocks.data();
    const std::array<Word, 8>* lanes = term.permutation == nullptr ? nullptr : term.permutation->lanes.data();
    for (std::size_t i = start; i < end; i += 8) {
        if (next.term != nullptr) next.fetch(i);
        std::size_t source = i;
        __m512i order = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
        if (blocks != nullptr) {
            source = std::size_t{blocks[i / 8] >> 3} * 8;
            order = load(lanes[blocks[i / 8] & 7].data());
        }
        source -= term.start;
        PairSums s;
        for (int j = 0; j < digits; ++j) {
            const __m512i digit = permute_lanes(load(term.digits[j] + source), order);
            s.c0.add_product(digit, load(term.key0[j] + i));
            s.c1.add_product(digit, load(term.key1[j] + i));
        }
        if (term.add0 != nullptr)
            s.c0.add_product(permute_lanes(load(term.add0 + source), order), add_factor);
        if (term.add1 != nullptr)
            s.c1.add_product(permute_lanes(load(term.add1 + source), order), add_factor);
        if (term.plaintext != nullptr) {
            const __m512i x0 = short_sum ? add(s.c0.montgomery(m), m.q) : reduce_term(s.c0, m);
            const __m512i x1 = short_sum ? add(s.c1.montgomery(m), m.q) : reduce_term(s.c1, m);
            const __m512i plaintext = load(term.plaintext + i);
            s = step.first ? PairSums() : sums[(i - start) / 8];
            s.c0.add_product(x0, plaintext);
            s.c1.add_product(x1, plaintext);
        } else if (!step.first) {
            const PairSums& stored = sums[(i - start) / 8];
            s.c0.low = add(s.c0.low, stored.c0.low);
            s.c0.high = add(s.c0.high, stored.c0.high);
            s.c1.low = add(s.c1.low, stored.c1.low);
            s.c1.high = add(s.c1.high, stored.c1.high);
        }
        if (step.last) {
            if (next.term != nullptr) {
                prefetch(step.out0 + (i - start) + kChunk);
                prefetch(step.out1 + (i - start) + kChunk);
            }
            store(step.out0 + (i - start), (*step.reduce)(s.c0, m));
            store(step.out1 + (i - start), (*step.reduce)(s.c1, m));
        } else {
            sums[(i - start) / 8] = s;
        }
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
    PairSums sums[kChunk / 8];
    for (std::size_t start = from; start < to; start += kChunk) {
        const std::size_t end = std::min(start + kChunk, to);
        Word* const chunk0 = out0 + (start - from);
        Word* const chunk1 = out1 + (start - from);
        for (std::size_t i = 0; accumulate && i < end - start; i += 8) {  // what is there, times 2^52
            PairSums& s = sums[i / 8] = PairSums();
            s.c0.high = load(chunk0 + i);
            s.c1.high = load(chunk1 + i);
        }
        for (std::size_t t = 0; t < count; ++t) {
            NextTerm next;
            const std::size_t ahead_term = (t + kTermsAhead) % count,
                              distance = (t + kTermsAhead) / count * kChunk;
            if (ahead && end + distance <= to) next = {terms + ahead_term, distance};
            const Step step{t == 0 && !accumulate, t + 1 == count, &reduce, chunk0, chunk1};
            switch (terms[t].digit_count) {
                case 1:
                    add_term<1>(sums, terms[t], next, start, end, step, modulus);
                    break;
                case 2:
                    add_term<2>(sums, terms[t], next, start, end, step, modulus);
                    break;
                case 3:
                    add_term<3>(sums, terms[t], next, start, end, step, modulus);
                    break;
                case 4:
                    add_term<4>(sums, terms[t], next, start, end, step, modulus);
                    break;
                default:
                    add_term<0>(sums, terms[t], next, start, end, step, modulus);
                    break;
            }
        }
    }
}

// Cuts terms of many digits that have no plaintext into terms of at most max_streams() digits. False, and no parts, where
// there is nothing to cut.
bool split_long_terms(const RotationTerm* terms, std::size_t count, std::vector<RotationTerm>& parts) {
    const int most = max_streams();
    const auto is_long = [most](const RotationTerm& term) {
        return term.digit_count > most && term.plaintext == nullptr;
    };
    if (std::none_of(terms, terms + count, is_long)) return false;
    for (std::size_t t = 0; t < count; ++t) {
        RotationTerm part = terms[t];
        while (is_long(part)) {
            RotationTerm& first = parts.emplace_back(part);
            first.digit_count = most;
            part.digits += most;
            part.key0 += most;
            part.key1 += most;
            part.add0 = part.add1 = nullptr;
            part.digit_count -= most;
        }
        parts.push_back(part);
    }
    return true;
}

}  // namespace

void accumulate_terms(Word* out0, Word* out1, const RotationTerm* terms, std::size_t count, std::size_t begin,
                      std::size_t end, const Modulus& m) {
    std::vector<RotationTerm> parts;
    if (split_long_terms(terms, count, parts)) {
        terms = parts.data();
        count = parts.size();
    }
    if (count == 0) {
        std::fill_n(out0, end - begin, Word{0});
        std::fill_n(out1, end - begin, Word{0});
    }
    for (std::size_t first = 0; first < count;) {
        std::size_t last = first + 1;
        for (std::size_t sum = products(terms[first]); last < count; ++last) {
            sum += products(terms[last]);
            if (sum > kMaxProducts) break;
        }
        sum_terms(out0, out1, terms + first, last - first, first > 0, begin, end, m);
        first = last;
    }
}

}  // namespace cipherblas::avx512ifma
