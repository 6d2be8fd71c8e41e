// Negacyclic NTT with AVX2 and FMA. The layers are grouped into passes of radix 2^LOG in registers, which recur depth first:
// the first pass reads words, and tails write words. In between a limb is what the arithmetic works on: float64 residues,
// or 32-bit words for moduli below 2^30.
#include "ring/kernels/avx2_ntt.h"

#include <algorithm>
#include <bit>

#include "ring/kernels/avx2_lift.h"
#include "ring/kernels/avx2_math.h"
#include "ring/kernels/avx2_words30.h"
#include "ring/kernels/tables.h"

namespace cipherblas::avx2 {

namespace {

constexpr int kTailLog = 5;  // the tail of float64 residues runs the last five layers, on 32 words

// ---- float64 residues

// Two vectors hold 8 words a0..a3, b0..b3. The last two layers want all even partners in one vector and all odd ones in
// the other:
//   stride 2:  a0 a1 b0 b1 | a2 a3 b2 b3   twiddles  0 0 1 1
//   stride 1:  a0 a2 b0 b2 | a1 a3 b1 b3   twiddles  0 1 2 3
// Exchanging the halves leads from the natural order to the first and back, interleaving from the first to the second
// and back.
CIPHERBLAS_INLINE void exchange_halves(__m256d& a, __m256d& b) {
    const __m256d x = _mm256_permute2f128_pd(a, b, 0x20);
    b = _mm256_permute2f128_pd(a, b, 0x31);
    a = x;
}
CIPHERBLAS_INLINE void interleave(__m256d& a, __m256d& b) {
    const __m256d x = _mm256_unpacklo_pd(a, b);
    b = _mm256_unpackhi_pd(a, b);
    a = x;
}
CIPHERBLAS_INLINE __m256d two_pairs(const Word* p) {
    const __m256i words = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
    return to_real(_mm256_castpd_si256(_mm256_permute_pd(_mm256_castsi256_pd(words), 0b1100)));
}

// Bounds in units of q: a product x * w is at most 1/2 + |x| / 4 (avx2_math.h), for |x| <= 2.
// Forward: every pass first reduces its values to 1/2; its layers let them grow to 1.125, 1.91 and 2.88, and none of
// the multiplicands is above 2. Inverse: values are at most 1 between layers: u - v <= 2 is the multiplicand, the product
// is at most 1, and u + v is reduced to 1/2.
// NARROW, for narrow moduli: a product x * w is at most 1/2 + |x| / 64, for |x| <= 32. Forward: 17 layers of 0.7 let values
// grow to 12.9, and only results are reduced. Inverse: values are at most 1.5 before a pass; those of sums alone grow to 12,
// those of products to 3, and they are reduced after it, where all others are products, or sums of two.
template <bool NARROW>
struct RealLayers {
    using Vector = __m256d;
    using Cell = Word;  // of the limb in between
    using Twiddle = Factor;
    static constexpr int kTail = kTailLog;
    static constexpr std::size_t kLanes = 4;

    explicit RealLayers(const Modulus& modulus) : m(modulus) {}

    CIPHERBLAS_INLINE Vector load(const Cell* p) const { return load_real(p); }
    CIPHERBLAS_INLINE void store(Cell* p, Vector v) const { store_real(p, v); }
    CIPHERBLAS_INLINE Vector load_words(const Word* p) const { return cipherblas::load_words(p); }
    CIPHERBLAS_INLINE Twiddle twiddle(const NttTable::Powers& roots, std::size_t index) const {
        return Factor(to_real(broadcast(roots.plain[index])), m);
    }
    CIPHERBLAS_INLINE Twiddle constant(Word w, const Modulus&) const {
        return Factor(broadcast(static_cast<double>(w)), m);
    }

    CIPHERBLAS_INLINE Vector before_pass(Vector v) const { return NARROW ? v : reduce(v, m); }
    // even +- (high + low), with the parts added in the order in which they are ready.
    CIPHERBLAS_INLINE void forward_butterfly(Vector& even, Vector& odd, const Product& v) const {
        odd = _mm256_sub_pd(_mm256_sub_pd(even, v.low), v.high);
        even = _mm256_add_pd(_mm256_add_pd(even, v.low), v.high);
    }
    CIPHERBLAS_INLINE void forward_butterfly(Vector& even, Vector& odd, const Twiddle& w) const {
        forward_butterfly(even, odd, Product(odd, w, m));
    }
    template <bool REDUCES = !NARROW>
    CIPHERBLAS_INLINE void inverse_butterfly(Vector& even, Vector& odd, const Twiddle& w) const {
        const Vector difference = _mm256_sub_pd(even, odd);
        even = _mm256_add_pd(even, odd);
        if constexpr (REDUCES) even = reduce(even, m);
        odd = multiply(difference, w, m);
    }
    template <int LOG>
    CIPHERBLAS_INLINE void after_inverse(Vector* v) const {
        if constexpr (!NARROW) return;
        v[0] = reduce(v[0], m);
        if constexpr (LOG == 3) v[1] = reduce(v[1], m);
    }
    // The last layer of the inverse transform: its sum and its difference, times a factor each, as words.
    CIPHERBLAS_INLINE __m256i residues(__m256d v, const Twiddle& factor) const {
        return to_residue(multiply(v, factor, m), m);
    }
    template <typename Finish>
    CIPHERBLAS_INLINE void last_butterfly(std::size_t even_at, std::size_t odd_at, Vector even, Vector odd,
                                          const Twiddle& sums, const Twiddle& differences,
                                          const Finish& finish) const {
        finish(even_at, residues(_mm256_add_pd(even, odd), sums));
        finish(odd_at, residues(_mm256_sub_pd(even, odd), differences));
    }

    // Results as words, or (a + result) * factor.
    CIPHERBLAS_INLINE __m256i words(Vector v) const { return to_residue(reduce(v, m), m); }
    CIPHERBLAS_INLINE __m256i combined(Vector v, const Word* a, const Twiddle& factor) const {
        return residues(_mm256_add_pd(cipherblas::load_words(a), reduce(v, m)), factor);
    }

    // All layers below block `node` of 32 words, which begins at `at`; finish(position, vector) is called for results. The
    // last two layers go without another reduction of their values, which reach 4.46 and 6.64.
    template <typename Layers, typename Finish>
    CIPHERBLAS_INLINE void forward_tail(const Cell* x, std::size_t at, std::size_t node,
                                        const NttTable::Powers& powers, const Layers& layers,
                                        const Finish& finish) const {
        const Word* const roots = powers.plain.data();
        __m256d v[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) v[i] = before_pass(load_real(x + 4 * i));
        layers(v);
#pragma GCC unroll 4
        for (int i = 0; i < 8; i += 2) {
            exchange_halves(v[i], v[i + 1]);
            const Factor w(two_pairs(roots + 8 * node + i), m);
            forward_butterfly(v[i], v[i + 1], Product::of_large(v[i + 1], w, m));
        }
#pragma GCC unroll 4
        for (std::size_t i = 0; i < 8; i += 2) {
            interleave(v[i], v[i + 1]);
            const Factor w(cipherblas::load_words(roots + 16 * node + 2 * i), m);
            forward_butterfly(v[i], v[i + 1], Product::of_large(v[i + 1], w, m));
            interleave(v[i], v[i + 1]);
            exchange_halves(v[i], v[i + 1]);
            finish(at + 4 * i, v[i]);
            finish(at + 4 * i + 4, v[i + 1]);
        }
    }

    // The same upwards, from words.
    template <typename Layers>
    CIPHERBLAS_INLINE void inverse_tail(Cell* x, const Word* from, std::size_t node,
                                        const NttTable::Powers& powers, const Layers& layers) const {
        const Word* const roots = powers.plain.data();
        __m256d v[8];
#pragma GCC unroll 4
        for (int i = 0; i < 8; i += 2) {
            v[i] = cipherblas::load_words(from + 4 * i);
            v[i + 1] = cipherblas::load_words(from + 4 * i + 4);
            exchange_halves(v[i], v[i + 1]);
            interleave(v[i], v[i + 1]);
            inverse_butterfly(v[i], v[i + 1], Factor(cipherblas::load_words(roots + 16 * node + 2 * i), m));
        }
#pragma GCC unroll 4
        for (int i = 0; i < 8; i += 2) {
            interleave(v[i], v[i + 1]);
            inverse_butterfly<true>(v[i], v[i + 1], Factor(two_pairs(roots + 8 * node + i), m));
            exchange_halves(v[i], v[i + 1]);
        }
        layers(v);
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) store_real(x + 4 * i, v[i]);
    }

    Lanes m;
};

// ---- passes

// The twiddles of a radix-2^LOG pass. node is the number of its first butterfly block in the tree of all blocks (1 for
// the whole transform, children 2 node and 2 node + 1), and so the index of its twiddle.
template <typename A, int LOG>
struct PassTwiddles {
    typename A::Twiddle w[1 << LOG];

    CIPHERBLAS_INLINE PassTwiddles(const A& by, std::size_t node, const NttTable::Powers& roots) {
#pragma GCC unroll 3
        for (int layer = 0; layer < LOG; ++layer) {
            const int blocks = 1 << layer;
#pragma GCC unroll 4
            for (int block = 0; block < blocks; ++block) {
                w[(1 << layer) + block] =
                    by.twiddle(roots, (node << layer) + static_cast<std::size_t>(block));
            }
        }
    }
};

template <typename A, int LOG>
CIPHERBLAS_INLINE void forward_layers(const A& by, typename A::Vector* v, const PassTwiddles<A, LOG>& t) {
#pragma GCC unroll 3
    for (int layer = 0; layer < LOG; ++layer) {
        const int half = (1 << LOG) >> (layer + 1);
        const int blocks = 1 << layer;
#pragma GCC unroll 4
        for (int block = 0; block < blocks; ++block) {
            typename A::Vector* const even = v + 2 * block * half;
#pragma GCC unroll 4
            for (int i = 0; i < half; ++i) {
                by.forward_butterfly(even[i], even[half + i], t.w[(1 << layer) + block]);
            }
        }
    }
}

// Layers LOG - 1 down to LAST.
template <int LAST, typename A, int LOG>
CIPHERBLAS_INLINE void inverse_layers(const A& by, typename A::Vector* v, const PassTwiddles<A, LOG>& t) {
#pragma GCC unroll 3
    for (int layer = LOG - 1; layer >= LAST; --layer) {
        const int half = (1 << LOG) >> (layer + 1);
        const int blocks = 1 << layer;
#pragma GCC unroll 4
        for (int block = 0; block < blocks; ++block) {
            typename A::Vector* const even = v + 2 * block * half;
#pragma GCC unroll 4
            for (int i = 0; i < half; ++i) {
                by.inverse_butterfly(even[i], even[half + i], t.w[(1 << layer) + block]);
            }
        }
    }
    if constexpr (LAST == 0) by.template after_inverse<LOG>(v);
}

// One transform: of `from`, with `x` for what lies between; finish(position, vector) takes the results.
template <typename A, typename Finish>
struct Forward {
    A by;
    const NttTable::Powers& roots;
    typename A::Cell* x;
    const Word* from;
    Finish finish;

    // One pass over the block `node` of 2^log_size words at `at`; the first one (node 1) reads words.
    template <int LOG>
    void pass(std::size_t at, int log_size, std::size_t node) const {
        const A local = by;
        const std::size_t stride = std::size_t{1} << (log_size - LOG);
        const PassTwiddles<A, LOG> twiddles(local, node, roots);
        typename A::Cell* const block = x + at;
        for (std::size_t offset = 0; offset < stride; offset += A::kLanes) {
            typename A::Vector v[1 << LOG];
#pragma GCC unroll 8
            for (std::size_t i = 0; i < (1 << LOG); ++i) {
                const std::size_t place = i * stride + offset;
                v[i] =
                    local.before_pass(node == 1 ? local.load_words(from + place) : local.load(block + place));
            }
            forward_layers(local, v, twiddles);
#pragma GCC unroll 8
            for (std::size_t i = 0; i < (1 << LOG); ++i) local.store(block + i * stride + offset, v[i]);
        }
    }
    void tails(std::size_t at, std::size_t node, std::size_t blocks) const {
        const A local = by;
        const Finish last = finish;
        for (const std::size_t end = node + blocks; node < end; ++node, at += std::size_t{1} << A::kTail) {
            local.forward_tail(
                x + at, at, node, roots,
                [&](typename A::Vector* v) {
                    forward_layers(local, v, PassTwiddles<A, 3>(local, node, roots));
                },
                last);
        }
    }
    // All layers below block `node` of 2^log_size words.
    void run(std::size_t at, int log_size, std::size_t node) const {
        if (log_size == A::kTail) return tails(at, node, 1);
        const int log_radix = next_pass(log_size - A::kTail);
        switch (log_radix) {
            case 1:
                pass<1>(at, log_size, node);
                break;
            case 2:
                pass<2>(at, log_size, node);
                break;
            default:
                pass<3>(at, log_size, node);
                break;
        }
        const int log_child = log_size - log_radix;
        const std::size_t children = std::size_t{1} << log_radix;
        if (log_child == A::kTail) return tails(at, node << log_radix, children);
        for (std::size_t child = 0; child < children; ++child) {
            run(at + (child << log_child), log_child, (node << log_radix) + child);
        }
    }

    // The radix (as its logarithm) of the next of so many layers: 8, after one odd pass.
    static int next_pass(int layers) { return layers % 3 == 0 ? 3 : layers % 3; }
};

// The same upwards: r = shift + factor * (inverse transform of `from`), where the last layer multiplies by N^-1 as well.
template <typename A>
struct Inverse {
    A by;
    const NttTable& table;
    typename A::Cell* x;
    const Word* from;
    Word* r;
    Word factor, shift;

    template <int LOG>
    void pass(std::size_t at, int log_size, std::size_t node) const {
        if (node == 1) return last_pass<LOG>();
        const A local = by;
        const std::size_t stride = std::size_t{1} << (log_size - LOG);
        const PassTwiddles<A, LOG> twiddles(local, node, table.inverse_roots);
        typename A::Cell* const block = x + at;
        for (std::size_t offset = 0; offset < stride; offset += A::kLanes) {
            typename A::Vector v[1 << LOG];
#pragma GCC unroll 8
            for (std::size_t i = 0; i < (1 << LOG); ++i) v[i] = local.load(block + i * stride + offset);
            inverse_layers<0>(local, v, twiddles);
#pragma GCC unroll 8
            for (std::size_t i = 0; i < (1 << LOG); ++i) local.store(block + i * stride + offset, v[i]);
        }
    }
    template <int LOG>
    void last_pass() const {
        constexpr std::size_t kHalf = 1 << (LOG - 1);
        const A local = by;
        const Modulus& modulus = table.modulus;
        const std::size_t stride = std::size_t{1} << (table.log_n - LOG);
        const PassTwiddles<A, LOG> twiddles(local, 1, table.inverse_roots);
        const auto sums = local.constant(mul_mod(table.n_inverse, factor, modulus), modulus);
        const auto differences = local.constant(mul_mod(table.last_root, factor, modulus), modulus);
        const __m256i q = broadcast(modulus.q), shifts = broadcast(shift);
        const bool adds = shift != 0;
        const auto finish = [&](std::size_t at, __m256i words) {
            if (adds) words = add_if_negative(_mm256_sub_epi64(_mm256_add_epi64(words, shifts), q), q);
            cipherblas::store(r + at, words);
        };
        for (std::size_t offset = 0; offset < stride; offset += A::kLanes) {
            typename A::Vector v[1 << LOG];
#pragma GCC unroll 8
            for (std::size_t i = 0; i < (1 << LOG); ++i) v[i] = local.load(x + i * stride + offset);
            inverse_layers<1>(local, v, twiddles);
#pragma GCC unroll 4
            for (std::size_t i = 0; i < kHalf; ++i) {
                local.last_butterfly(i * stride + offset, (kHalf + i) * stride + offset, v[i], v[kHalf + i],
                                     sums, differences, finish);
            }
        }
    }
    void run(std::size_t at, int log_size, std::size_t node) const {
        const int log_radix = Forward<A, int>::next_pass(log_size - A::kTail);
        const int log_child = log_size - log_radix;
        for (std::size_t child = 0; child < std::size_t{1} << log_radix; ++child) {
            const std::size_t place = at + (child << log_child), below = (node << log_radix) + child;
            if (log_child > A::kTail) {
                run(place, log_child, below);
                continue;
            }
            const A local = by;
            local.inverse_tail(
                x + place, from + place, below, table.inverse_roots, [&](typename A::Vector* v) {
                    inverse_layers<0>(local, v, PassTwiddles<A, 3>(local, below, table.inverse_roots));
                });
        }
        switch (log_radix) {
            case 1:
                return pass<1>(at, log_size, node);
            case 2:
                return pass<2>(at, log_size, node);
            default:
                return pass<3>(at, log_size, node);
        }
    }
};

// Up to 32 words there is no pass besides the tail: such toy degrees take the scalar path.
bool is_toy(const NttTable& table) { return table.log_n <= kTailLog; }

// body(layers, work) with the fastest arithmetic for a table, and room for what lies between, which may be r.
template <typename Body>
void with_layers(const NttTable& table, Word* r, const Body& body) {
    const Modulus& m = table.modulus;
    if (m.bits <= Words30::kBits && table.log_n > Layers30::kTail) {
        return body(Layers30(m), short_limb(table.log_n));
    }
    if (m.bits <= kNarrowModulus) return body(RealLayers<true>(m), r);
    body(RealLayers<false>(m), r);
}

void transform(Word* r, const Word* x, const NttTable& table) {
    with_layers(table, r, [&](const auto& by, auto* work) {
        const auto finish = [by, r](std::size_t at, auto v) { store(r + at, by.words(v)); };
        Forward<std::decay_t<decltype(by)>, decltype(finish)>{by, table.roots, work, x, finish}.run(
            0, table.log_n, 1);
    });
}

void scaled(Word* r, const Word* a, Word factor, Word shift, const NttTable& table) {
    with_layers(table, r, [&](const auto& by, auto* work) {
        Inverse<std::decay_t<decltype(by)>>{by, table, work, a, r, factor, shift}.run(0, table.log_n, 1);
    });
}

// All layers below block `node` of 2^log_size float64 residues.
void forward_reals(Word* x, int log_size, std::size_t node, const NttTable& table) {
    const auto run = [&](const auto& by) {
        const auto finish = [by, x](std::size_t at, __m256d v) { store(x + at, by.words(v)); };
        Forward<std::decay_t<decltype(by)>, decltype(finish)>{by, table.roots, x, x, finish}.run(0, log_size,
                                                                                                 node);
    };
    if (table.modulus.bits <= kNarrowModulus) return run(RealLayers<true>(table.modulus));
    run(RealLayers<false>(table.modulus));
}

}  // namespace

void ntt(Word* x, const NttTable& table) {
    if (is_toy(table)) return scalar_table()->ntt(x, table);
    transform(x, x, table);
}

void ntt_part(Word* const* r, const Word* const* x, std::size_t count, int part, bool lazy,
              const Upcoming& upcoming, const NttTable& table) {
    if (is_toy(table)) return scalar_table()->ntt_part(r, x, count, part, lazy, upcoming, table);
    for (std::size_t k = 0; k < count; ++k) transform(r[k], x[k], table);
}

void ntt_part_add_mul_scalar(Word* const* r, const Word* const* a, const Word* const* x, Word* const* work,
                             std::size_t count, Word c, int part, bool bypass, const Upcoming& upcoming,
                             const NttTable& table) {
    if (is_toy(table)) {
        return scalar_table()->ntt_part_add_mul_scalar(r, a, x, work, count, c, part, bypass, upcoming,
                                                       table);
    }
    for (std::size_t k = 0; k < count; ++k) {
        with_layers(table, work[k], [&](const auto& by, auto* between) {
            const auto factor = by.constant(c, table.modulus);
            const auto finish = [by, factor, to = r[k], addend = a[k]](std::size_t at, auto v) {
                store(to + at, by.combined(v, addend + at, factor));
            };
            Forward<std::decay_t<decltype(by)>, decltype(finish)>{by, table.roots, between, x[k], finish}.run(
                0, table.log_n, 1);
        });
    }
}

// Every block of so many words, 32 at least, begins with the same coefficients.
void ntt_of_short(Word* r, const Word* a, std::size_t count, std::size_t first, std::size_t length,
                  const NttTable& table) {
    constexpr std::size_t kBlock = std::size_t{1} << kTailLog;
    const std::size_t size = std::max(count, kBlock), node = ((std::size_t{1} << table.log_n) + first) / size;
    if (node == 1) {  // all of the limb, as words
        std::copy_n(a, count, r);
        return ntt(r, table);
    }
    for (std::size_t i = 0; i < count; i += 4) store_real(r + i, load_words(a + i));
    std::fill_n(r + count, size - count, 0);
    for (Word* to = r + size; to < r + length; to += size) std::copy_n(r, size, to);
    for (std::size_t block = 0; block < length / size; ++block) {
        forward_reals(r + block * size, std::countr_zero(size), node + block, table);
    }
}

// The first layer of a symmetric transform is a sum of two numbers of a, and half of the others is left out.
void ntt_of_signed(Word* r, const std::int64_t* a, Word factor, bool symmetric, const NttTable& table) {
    if (table.log_n <= kTailLog + 1) {
        return scalar_table()->ntt_of_signed(r, a, factor, symmetric, table);
    }
    const Modulus& modulus = table.modulus;
    const Lanes m(modulus);
    const std::size_t n = std::size_t{1} << table.log_n;
    const Lift lift(factor, modulus);
    if (!symmetric) {
        for (std::size_t i = 0; i < n; i += 4) {
            Sum sum(lift.split);
            lift.add_to(sum, load_signed(a + i));
            store(r + i, to_residue(lift.sum(sum, m), m));
        }
        return ntt(r, table);
    }
    const Lift of_mirrored(mul_mod(modulus.q - table.roots.plain[1], factor, modulus), modulus);
    for (std::size_t i = 0; i < n / 2; i += 4) {
        Sum sum(lift.split);
        lift.add_to(sum, load_signed(a + i));
        of_mirrored.add_to(sum, _mm256_permute4x64_epi64(load_signed(a + n / 2 - i - 3), 0x1b));
        store_real(r + i, lift.sum(sum, m));
    }
    forward_reals(r, table.log_n - 1, 2, table);
    for (std::size_t i = 0; i < n / 2; i += 4) {
        store(r + n - 4 - i, _mm256_permute4x64_epi64(load(r + i), 0x1b));
    }
}

void intt(Word* x, const NttTable& table) {
    if (is_toy(table)) return scalar_table()->intt(x, table);
    scaled(x, x, 1, 0, table);
}

void intt_scaled(Word* r, const Word* a, const Word* b, Word* scratch, Word factor, Word shift,
                 const PieceLayout& layout, bool bypass, const NttTable& table) {
    if (is_toy(table)) {
        return scalar_table()->intt_scaled(r, a, b, scratch, factor, shift, layout, bypass, table);
    }
    if (b != nullptr) {
        mul(scratch, a, b, std::size_t{1} << table.log_n, table.modulus);
        a = scratch;
    }
    scaled(r, a, factor, shift, table);
}

}  // namespace cipherblas::avx2
