#include "ring/kernels/counting.h"

#include <atomic>
#include <bit>

#include "ring/kernels.h"
#include "ring/ntt.h"
#include "ring/packing.h"

namespace cipherblas {
namespace {

using Word = std::uint64_t;

// Words, if nothing else is said. A word that a kernel handles in several ways counts in each of them.
struct Totals {
    std::atomic<std::uint64_t> forward{0};      // transforms, those that a base conversion begins included
    std::atomic<std::uint64_t> inverse{0};      // transforms
    std::atomic<std::uint64_t> products{0};     // multiply-adds of sums of products
    std::atomic<std::uint64_t> conversions{0};  // multiply-adds of base conversions: sources times words made
    std::atomic<std::uint64_t> scalings{
        0};                               // words times one number, or one word each, with or without a sum
    std::atomic<std::uint64_t> sums{0};   // additions, subtractions, negations
    std::atomic<std::uint64_t> lifts{0};  // signed numbers that become residues
    std::atomic<std::uint64_t> permuted{
        0};  // made by an automorphism: of each component that is made with one
    std::atomic<std::uint64_t> key_bytes{0};    // of switching keys that are read
    std::atomic<std::uint64_t> plain_bytes{0};  // of plaintexts that are read for products
    std::atomic<std::uint64_t> rows{0};         // that butterflies of rows write
};

Totals totals;
const Kernels* inner = nullptr;

void count(std::atomic<std::uint64_t>& total, std::size_t words) {
    total.fetch_add(words, std::memory_order_relaxed);
}

std::size_t limb_words(const NttTable& table) { return std::size_t{1} << table.log_n; }
std::size_t part_words(const NttTable& table) {
    return limb_words(table) / static_cast<std::size_t>(inner->ntt_parts(table.log_n));
}

void ntt(Word* x, const NttTable& table) {
    count(totals.forward, limb_words(table));
    inner->ntt(x, table);
}

void intt(Word* x, const NttTable& table) {
    count(totals.inverse, limb_words(table));
    inner->intt(x, table);
}

// A symmetric one counts as a whole one.
void ntt_of_signed(Word* r, const std::int64_t* a, Word factor, bool symmetric, const NttTable& table) {
    count(totals.lifts, limb_words(table));
    if (factor != 1) count(totals.scalings, limb_words(table));
    count(totals.forward, limb_words(table));
    inner->ntt_of_signed(r, a, factor, symmetric, table);
}

void intt_scaled(Word* r, const Word* a, const Word* b, Word* scratch, Word factor, Word shift,
                 const PieceLayout& layout, bool bypass, const NttTable& table) {
    count(totals.inverse, limb_words(table));
    if (b != nullptr) count(totals.scalings, limb_words(table));
    inner->intt_scaled(r, a, b, scratch, factor, shift, layout, bypass, table);
}

void add(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& m) {
    count(totals.sums, n);
    inner->add(r, a, b, n, m);
}

void sub(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& m) {
    count(totals.sums, n);
    inner->sub(r, a, b, n, m);
}

void neg(Word* r, const Word* a, std::size_t n, const Modulus& m) {
    count(totals.sums, n);
    inner->neg(r, a, n, m);
}

void mul(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& m) {
    count(totals.scalings, n);
    inner->mul(r, a, b, n, m);
}

void mul_mont(Word* r, const Word* a, const Word* b, std::size_t n, const Modulus& m) {
    count(totals.scalings, n);
    inner->mul_mont(r, a, b, n, m);
}

void mul_scalar(Word* r, const Word* a, Word c, std::size_t n, const Modulus& m) {
    count(totals.scalings, n);
    inner->mul_scalar(r, a, c, n, m);
}

void add_mul_scalar(Word* r, const Word* a, const Word* b, Word c, std::size_t n, const Modulus& m) {
    count(totals.scalings, n);
    inner->add_mul_scalar(r, a, b, c, n, m);
}

void from_signed(Word* r, const std::int64_t* a, std::size_t n, const Modulus& m) {
    count(totals.lifts, n);
    inner->from_signed(r, a, n, m);
}

void gaussian(std::int64_t* r, const Word* words, std::size_t n) { inner->gaussian(r, words, n); }

std::size_t uniform(Word* r, const Word* words, std::size_t n, const Modulus& m) {
    return inner->uniform(r, words, n, m);
}

void permute(Word* r, const Word* a, const Permutation& p, std::size_t n) {
    count(totals.permuted, n);
    inner->permute(r, a, p, n);
}

void base_overflow(Word* v, const Word* const* y, const double* reciprocal, int sources, std::size_t n) {
    inner->base_overflow(v, y, reciprocal, sources, n);
}

void base_convert(Word* r, const Word* const* y, const Word* factor, int sources, const Word* v,
                  Word overflow_factor, std::size_t n, const Modulus& m) {
    count(totals.conversions, static_cast<std::size_t>(sources) * n);
    inner->base_convert(r, y, factor, sources, v, overflow_factor, n, m);
}

void scaled_sum(Word* r, const Word* const* x, const Word* factor, int terms, const Word* v, Word constant,
                std::size_t n, const Modulus& m) {
    count(totals.scalings, static_cast<std::size_t>(terms) * n);
    count(totals.sums, static_cast<std::size_t>(terms - (v == nullptr ? 1 : 0)) * n);
    inner->scaled_sum(r, x, factor, terms, v, constant, n, m);
}

int ntt_parts(int log_n) { return inner->ntt_parts(log_n); }

// The first layers of the transform are counted with those that follow, which every part must go through.
void base_convert_ntt(Word* r, const ConversionPiece& piece, const ConversionFactors& f, bool bypass,
                      const NttTable& table) {
    std::size_t words = piece.length * static_cast<std::size_t>(inner->ntt_parts(table.log_n));
    if (piece.parts != ConversionPiece::Parts::kAll) words /= 2;
    count(totals.conversions, static_cast<std::size_t>(f.count) * words);
    inner->base_convert_ntt(r, piece, f, bypass, table);
}

void order_stores() { inner->order_stores(); }

void ntt_part(Word* const* r, const Word* const* x, std::size_t limbs, int part, bool lazy,
              const Upcoming& upcoming, const NttTable& table) {
    count(totals.forward, limbs * part_words(table));
    inner->ntt_part(r, x, limbs, part, lazy, upcoming, table);
}

void ntt_part_add_mul_scalar(Word* const* r, const Word* const* a, const Word* const* x, Word* const* work,
                             std::size_t limbs, Word c, int part, bool bypass, const Upcoming& upcoming,
                             const NttTable& table) {
    count(totals.forward, limbs * part_words(table));
    count(totals.scalings, limbs * part_words(table));
    inner->ntt_part_add_mul_scalar(r, a, x, work, limbs, c, part, bypass, upcoming, table);
}

void multiply_sum(Word* c0, Word* c1, Word* c2, const Word* const* a0, const Word* const* a1,
                  const Word* const* b0, const Word* const* b1, std::size_t terms, bool accumulate,
                  bool bypass, std::size_t n, const Modulus& m) {
    count(totals.products, 4 * terms * n);
    inner->multiply_sum(c0, c1, c2, a0, a1, b0, b1, terms, accumulate, bypass, n, m);
}

void multiply_plain_sum(Word* c0, Word* c1, const void* const* p, std::size_t halves, std::size_t repeats,
                        const Word* const* b0, const Word* const* b1, std::size_t terms, bool accumulate,
                        std::size_t n, const Modulus& m) {
    count(totals.products, 2 * terms * n);
    count(totals.plain_bytes, terms * ((n + repeats - 1) / repeats) * halves * sizeof(std::uint32_t));
    inner->multiply_plain_sum(c0, c1, p, halves, repeats, b0, b1, terms, accumulate, n, m);
}

// Of a transform so many of its layers as there are.
void multiply_short_sum(Word* c0, Word* c1, const Word* const* p, std::size_t size, const Word* const* b0,
                        const Word* const* b1, std::size_t terms, bool accumulate, std::size_t first,
                        std::size_t n, Word* scratch, const NttTable& table) {
    const std::size_t layers = static_cast<std::size_t>(std::countr_zero(size));
    count(totals.forward, terms * n * layers / static_cast<std::size_t>(table.log_n));
    count(totals.products, 2 * terms * n);
    inner->multiply_short_sum(c0, c1, p, size, b0, b1, terms, accumulate, first, n, scratch, table);
}

void accumulate_terms(Word* out0, Word* out1, const RotationTerm* terms, std::size_t number, bool accumulate,
                      std::size_t begin, std::size_t end, const Modulus& m) {
    const std::size_t n = end - begin;
    for (std::size_t t = 0; t < number; ++t) {
        const RotationTerm& term = terms[t];
        const std::size_t key_words = 2 * static_cast<std::size_t>(term.digit_count) * n;
        count(totals.products, key_words);
        count(totals.key_bytes, key_words * static_cast<std::size_t>(term.key_bits) / 8);
        for (const Word* const added : {term.add0, term.add1}) {
            if (added != nullptr) count(totals.products, n);
        }
        if (term.permutation != nullptr) count(totals.permuted, 2 * n);
        if (term.plaintext != nullptr) {
            count(totals.products, 2 * n);
            count(totals.plain_bytes, n * sizeof(Word));
        }
    }
    inner->accumulate_terms(out0, out1, terms, number, accumulate, begin, end, m);
}

void row_butterfly(Word* const* out, const Word* const* in, const std::size_t* shift, int radix, bool inverse,
                   std::size_t n) {
    count(totals.rows, static_cast<std::size_t>(radix) * n);
    inner->row_butterfly(out, in, shift, radix, inverse, n);
}

Kernels table = {
    .name = "",
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
    .gaussian = gaussian,
    .uniform = uniform,
    .permute = permute,
    .base_overflow = base_overflow,
    .base_convert = base_convert,
    .scaled_sum = scaled_sum,
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
    .row_butterfly = row_butterfly,
};

// The numbers of `totals`, under the names that `kernel_counts` gives them.
template <typename Body>
void for_each_total(const Body& body) {
    body("forward", totals.forward);
    body("inverse", totals.inverse);
    body("products", totals.products);
    body("conversions", totals.conversions);
    body("scalings", totals.scalings);
    body("sums", totals.sums);
    body("lifts", totals.lifts);
    body("permuted", totals.permuted);
    body("key_bytes", totals.key_bytes);
    body("plain_bytes", totals.plain_bytes);
    body("rows", totals.rows);
}

}  // namespace

const Kernels* counting_table(const Kernels& counted) {
    inner = &counted;
    table.name = counted.name;
    table.prepare_words = counted.prepare_words;
    return &table;
}

void clear_kernel_counts() {
    for_each_total([](const char*, std::atomic<std::uint64_t>& total) { total = 0; });
}

KernelCounts kernel_counts() {
    KernelCounts counts;
    for_each_total([&](const char* name, const std::atomic<std::uint64_t>& total) {
        counts.emplace_back(name, total.load());
    });
    return counts;
}

}  // namespace cipherblas
