// The table of limb kernels: one entry per operation, one table per instruction set.
//
// Every function works on one limb (one residue vector of length n modulo one prime). Inputs and outputs are
// fully reduced to [0, q) unless a line says otherwise, so the tables of all instruction sets are bit-equal.
// "Montgomery form" of x is x * 2^52 mod q. n is a multiple of 8 and pointers are 64-byte aligned.
#pragma once
#include <cstddef>
#include <cstdint>

#include "arith/modulus.h"
#include "ring/packing.h"

namespace cipherblas {

struct NttTable;     // ring/ntt.h: twiddles of one (N, q)
struct Permutation;  // ring/automorphism.h: X -> X^g as a permutation of evaluation points

// One term  plaintext * ( sum_j digit_j(X^g) * key_j + add(X^g) * add_factor )  of a linear transform, restricted to one limb.
struct RotationTerm {
    const Permutation* permutation = nullptr;  // null: identity
    const std::uint64_t* const* digits =
        nullptr;  // digit_count limbs, NTT form; not reduced if of a lazy ntt_part
    const std::uint64_t* const* key0 = nullptr;  // digit_count limbs of the key's b part, Montgomery form
    const std::uint64_t* const* key1 = nullptr;  // digit_count limbs of the key's a part, Montgomery form
    int digit_count = 0;                         // 0: no key switch (unrotated term); at most 512
    int key_bits = 0;                     // that the limbs of the key are packed by, see ring/packing.h
    const std::uint64_t* add0 = nullptr;  // added to component 0, times add_factor; null: nothing
    const std::uint64_t* add1 = nullptr;  // likewise component 1
    std::uint64_t add_factor = 0;         // Montgomery form
    // digits, add0 and add1 begin with the word at this position of the limb, and hold all that the sum reads of them.
    std::size_t start = 0;
    const std::uint64_t* plaintext = nullptr;  // Montgomery form; null: factor 1
};

// Words that are read or written soon, and fetched meanwhile: streams of one part of a limb each.
struct Upcoming {
    const std::uint64_t* const* streams = nullptr;
    std::size_t count = 0;
};

// Where base_convert_ntt's sources keep their words: pieces of `length` words (a power of two, 8 at least) of every part,
// the parts of a piece next to each other, and `stride` words from a piece to the next. The natural order is
// {words of a part, 0}.
struct PieceLayout {
    std::size_t length, stride;
};

// A piece of the sources of a base conversion: words [offset, offset + length) of every part of a limb.
struct ConversionPiece {
    // Per source, and last the overflow: the words of the first part; those of the next part are `stride` words on. The
    // overflow of a single source is 1 everywhere, and may be null for a target q if the source prime is up to kNear q.
    static constexpr std::uint64_t kNear = 8;
    const std::uint64_t* const* y;
    std::size_t stride, offset, length;
    // Which parts are made: all, or of several a half, which lies at r alone. Halves are for a single near source.
    enum class Parts { kAll, kFirstHalf, kSecondHalf } parts = Parts::kAll;
    bool prepared = false;  // the words went through prepare_words; there is an overflow then
};

// One target of a base conversion; see base_convert.
struct ConversionFactors {
    const std::uint64_t* factor;  // per source, and last the overflow factor
    int count;                    // of sources
    std::uint64_t source;         // the first source prime d; a single one: y - floor(d / 2) is converted
};

// Where a kernel can write past the caches (`bypass`), so do results of so many words: nothing that follows would find
// them there, and the lines that they replace need not be read.
inline bool bypasses_caches(std::size_t words) { return words > std::size_t{1} << 20; }

struct Kernels {
    const char* name;  // "scalar", "avx2", "avx512ifma"

    // Negacyclic NTT, in place. Coefficients in natural order <-> evaluations in bit-reversed order:
    // position i holds the value at psi^(2*bitrev(i)+1).
    void (*ntt)(std::uint64_t* x, const NttTable& table);
    void (*intt)(std::uint64_t* x, const NttTable& table);
    // r = the transform of factor times a, for a below 2^63 taken as signed and a factor below q: from_signed, mul_scalar and
    // ntt in one. symmetric: a(1/X) = a(X), that is a_(N-k) = -a_k, as real slots are encoded. Then its values at a root and
    // at the inverse of that one are equal, the latter in the reverse order of the former, and only half are computed.
    void (*ntt_of_signed)(std::uint64_t* r, const std::int64_t* a, std::uint64_t factor, bool symmetric,
                          const NttTable& table);
    // r = shift + factor * (inverse transform of a, or of the product a b if b is not null), both below q, the shift added to
    // every coefficient: free where the factor joins N^-1. r, in that layout, is a or does not overlap it; scratch has room
    // for a limb and may be a. bypass: r goes past the caches; then there is no shift.
    void (*intt_scaled)(std::uint64_t* r, const std::uint64_t* a, const std::uint64_t* b,
                        std::uint64_t* scratch, std::uint64_t factor, std::uint64_t shift,
                        const PieceLayout& layout, bool bypass, const NttTable& table);

    void (*add)(std::uint64_t* r, const std::uint64_t* a, const std::uint64_t* b, std::size_t n,
                const Modulus& m);
    void (*sub)(std::uint64_t* r, const std::uint64_t* a, const std::uint64_t* b, std::size_t n,
                const Modulus& m);
    void (*neg)(std::uint64_t* r, const std::uint64_t* a, std::size_t n, const Modulus& m);
    void (*mul)(std::uint64_t* r, const std::uint64_t* a, const std::uint64_t* b, std::size_t n,
                const Modulus& m);
    // r = a * b * 2^-52: the plain product when b is in Montgomery form.
    void (*mul_mont)(std::uint64_t* r, const std::uint64_t* a, const std::uint64_t* b, std::size_t n,
                     const Modulus& m);
    void (*mul_scalar)(std::uint64_t* r, const std::uint64_t* a, std::uint64_t c, std::size_t n,
                       const Modulus& m);
    // r = (a + b) * c: the tail of ModDown and rescale, which convert the negative of what they subtract.
    void (*add_mul_scalar)(std::uint64_t* r, const std::uint64_t* a, const std::uint64_t* b, std::uint64_t c,
                           std::size_t n, const Modulus& m);
    // r = a mod q for a below 2^63 taken as signed.
    void (*from_signed)(std::uint64_t* r, const std::int64_t* a, std::size_t n, const Modulus& m);
    // n discrete Gaussian values from as many random words; see sample_gaussian.
    void (*gaussian)(std::int64_t* r, const std::uint64_t* words, std::size_t n);
    // r = words mod q, of all words before the first one that is no less than floor(2^64 / q) q; returns how many these
    // are, at most n. Any n, and pointers of any alignment.
    std::size_t (*uniform)(std::uint64_t* r, const std::uint64_t* words, std::size_t n, const Modulus& m);
    // r = a(X^g) in NTT form (r and a do not overlap).
    void (*permute)(std::uint64_t* r, const std::uint64_t* a, const Permutation& p, std::size_t n);

    // v = floor(1/2 + sum_i y_i * reciprocal_i), summed in order of i by multiply then add (never fused), so that
    // sum_i y_i * (D / d_i) - v * D is the centred representative: 1/d_i = reciprocal_i, y_i < d_i < 2^50.
    void (*base_overflow)(std::uint64_t* v, const std::uint64_t* const* y, const double* reciprocal,
                          int count, std::size_t n);
    // r = sum_i y_i * factor_i * 2^-52 + v * overflow_factor * 2^-52 mod q. y_i and v below 2^50 and unrelated to q;
    // factors in Montgomery form (overflow_factor is -D mod q in that form, -floor(d / 2) of a single source d); v may be
    // null. count <= 64.
    void (*base_convert)(std::uint64_t* r, const std::uint64_t* const* y, const std::uint64_t* factor,
                         int count, const std::uint64_t* v, std::uint64_t overflow_factor, std::size_t n,
                         const Modulus& m);
    // The same of residues modulo q: a weighted sum of limbs, and a constant where v is 1.
    void (*scaled_sum)(std::uint64_t* r, const std::uint64_t* const* x, const std::uint64_t* factor,
                       int count, const std::uint64_t* v, std::uint64_t constant, std::size_t n,
                       const Modulus& m);
    // base_convert and the first layers of ntt in one, piece by piece. Those layers combine the same words of several
    // parts, ntt_parts(log_n) <= 8 equal ones; after them each part goes its own way.
    // bypass: r goes past the caches, and order_stores() must follow the last piece.
    int (*ntt_parts)(int log_n);
    // Null, or r = y in the form in which base_convert_ntt reads it faster: worth it before several targets. r may be y.
    void (*prepare_words)(std::uint64_t* r, const std::uint64_t* y, std::size_t n);
    void (*base_convert_ntt)(std::uint64_t* r, const ConversionPiece& piece, const ConversionFactors& f,
                             bool bypass, const NttTable& table);
    void (*order_stores)();
    // r = the remaining layers of one part of x, for several limbs modulo the same prime: they share what is read of the
    // table. All pointers are to the words of that part; r_k may be x_k. Apart, r in the inner caches and x out of them,
    // x needs no writing back. lazy: r need not be reduced, for it is digits, which only accumulate_terms of the same
    // table reads.
    void (*ntt_part)(std::uint64_t* const* r, const std::uint64_t* const* x, std::size_t count, int part,
                     bool lazy, const Upcoming& upcoming, const NttTable& table);
    // The same with the transforms in `work`, and r_k = (a_k + work_k) * c: the tail of ModDown and rescale in one. work_k
    // may be x_k, r_k may be a_k or, with work_k elsewhere, x_k. bypass: r goes past the caches, for results that they cannot hold.
    void (*ntt_part_add_mul_scalar)(std::uint64_t* const* r, const std::uint64_t* const* a,
                                    const std::uint64_t* const* x, std::uint64_t* const* work,
                                    std::size_t count, std::uint64_t c, int part, bool bypass,
                                    const Upcoming& upcoming, const NttTable& table);

    // c0 (+)= sum_t a0_t b0_t,  c1 (+)= sum_t a0_t b1_t + a1_t b0_t,  c2 (+)= sum_t a1_t b1_t; lazily reduced.
    // accumulate: add to the present content of c0, c1, c2; if not, they may bypass the caches.
    void (*multiply_sum)(std::uint64_t* c0, std::uint64_t* c1, std::uint64_t* c2,
                         const std::uint64_t* const* a0, const std::uint64_t* const* a1,
                         const std::uint64_t* const* b0, const std::uint64_t* const* b1, std::size_t count,
                         bool accumulate, bool bypass, std::size_t n, const Modulus& m);
    // c0 (+)= sum_t p_t b0_t * 2^-52,  c1 (+)= sum_t p_t b1_t * 2^-52; lazily reduced. p_t in Montgomery form,
    // in one or two halves of 64 bits each word (ring/packing.h): integers of 32 bits, or of 64, which need no further alignment.
    // Each of them stands for `repeats` positions in a row, 1 or a power of two from 8 on.
    void (*multiply_plain_sum)(std::uint64_t* c0, std::uint64_t* c1, const void* const* p, std::size_t halves,
                               std::size_t repeats, const std::uint64_t* const* b0,
                               const std::uint64_t* const* b1, std::size_t count, bool accumulate,
                               std::size_t n, const Modulus& m);
    // The same with polynomials of few coefficients in the place of p_t: words p_t[0 .. size) in Montgomery form, size a power of
    // two that divides N. Their transforms are made here, without the layers that would move zeros, at the positions first to
    // first + n - 1 of the limb: multiples of size and of 128, or all of them. All other pointers are to these; scratch has
    // room for count n words.
    void (*multiply_short_sum)(std::uint64_t* c0, std::uint64_t* c1, const std::uint64_t* const* p,
                               std::size_t size, const std::uint64_t* const* b0,
                               const std::uint64_t* const* b1, std::size_t count, bool accumulate,
                               std::size_t first, std::size_t n, std::uint64_t* scratch,
                               const NttTable& table);
    // out_c (+)= sum_t term_t (component c) at the positions [begin, end), multiples of 8, the first of them at out_c[0];
    // rotation-inner over cache-sized chunks: the core of MO-HLT (FAME, Alg. 3).
    void (*accumulate_terms)(std::uint64_t* out0, std::uint64_t* out1, const RotationTerm* terms,
                             std::size_t count, bool accumulate, std::size_t begin, std::size_t end,
                             const Modulus& m);

    // A butterfly of 2 or 4 rows of n words (a power of two, 8 at least) modulo X^n + 1, on words taken as
    // integers modulo 2^64. z_r = X^shift[r-1] x_r, shifts below 2n; with I = X^(n/2) and radix 4
    //   out = (z_0 + z_2 + (z_1 + z_3), z_0 + z_2 - (z_1 + z_3),
    //          z_0 - z_2 + I (z_1 - z_3), z_0 - z_2 - I (z_1 - z_3)),
    // with radix 2 out = (z_0 + z_1, z_0 - z_1). inverse: `radix` times the x of which `in` is the outcome.
    // No row of out is one of in.
    void (*row_butterfly)(std::uint64_t* const* out, const std::uint64_t* const* in, const std::size_t* shift,
                          int radix, bool inverse, std::size_t n);
};

// The table for the best instruction set of this CPU, or the one that CIPHERBLAS_ISA (scalar, avx2, avx512ifma)
// forces; throws std::runtime_error when that one is unknown or not supported here.
const Kernels& kernels();
// A named table, for tests and benchmarks; null when this CPU or build lacks it.
const Kernels* kernels_by_name(const char* name);

}  // namespace cipherblas
