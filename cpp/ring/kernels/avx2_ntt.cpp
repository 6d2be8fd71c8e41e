// Negacyclic NTT with AVX2 and FMA, on float64 residues: the first pass reads words, the last one writes words, and in
// between the limb holds float64. The layers are grouped into passes of radix 2^LOG in registers, which recur depth
// first; the last five layers of the forward transform work on 32 contiguous words held in eight registers.
//
// Bounds in units of q: a product x * w is at most 1/2 + |x| / 4 (avx2_math.h), for |x| <= 2.
// Forward: every pass first reduces its values to 1/2; its layers let them grow to 1.125, 1.91 and 2.88, and none of
// the multiplicands is above 2. Inverse: values are at most 1 between layers: u - v <= 2 is the multiplicand, the product
// is at most 1, and u + v is reduced to 1/2.
#include "ring/kernels/avx2_ntt.h"

#include <algorithm>
#include <bit>

#include "ring/kernels/avx2_lift.h"
#include "ring/kernels/avx2_math.h"
#include "ring/kernels/tables.h"

namespace cipherblas::avx2 {

namespace {

constexpr int kTailLog = 5;  // the tail runs the last five layers, on 32 words

// even +- (high + low), with the parts added in the order in which they are ready.
CIPHERBLAS_INLINE void forward_butterfly(__m256d& even, __m256d& odd, const Product& v) {
    odd = _mm256_sub_pd(_mm256_sub_pd(even, v.low), v.high);
    even = _mm256_add_pd(_mm256_add_pd(even, v.low), v.high);
}

CIPHERBLAS_INLINE void inverse_butterfly(__m256d& even, __m256d& odd, const Factor& w, const Lanes& m) {
    const __m256d difference = _mm256_sub_pd(even, odd);
    even = reduce(_mm256_add_pd(even, odd), m);
    odd = multiply(difference, w, m);
}

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

// The twiddles of a radix-2^LOG pass. node is the number of its first butterfly block in the tree of all blocks (1 for
// the whole transform, children 2 node and 2 node + 1), and so the index of its twiddle.
template <int LOG>
struct PassTwiddles {
    __m256d w[1 << LOG], ratio[1 << LOG];

    CIPHERBLAS_INLINE PassTwiddles(std::size_t node, const Word* roots, const Lanes& m) {
#pragma GCC unroll 3
        for (int layer = 0; layer < LOG; ++layer) {
            const int blocks = 1 << layer;
#pragma GCC unroll 4
            for (int block = 0; block < blocks; ++block) {
                const Factor f(to_real(broadcast(roots[(node << layer) + block])), m);
                w[(1 << layer) + block] = f.w;
                ratio[(1 << layer) + block] = f.ratio;
            }
        }
    }
    CIPHERBLAS_INLINE Factor operator[](int k) const { return {w[k], ratio[k]}; }
};

template <int LOG>
CIPHERBLAS_INLINE void forward_layers(__m256d* v, const PassTwiddles<LOG>& t, const Lanes& m) {
#pragma GCC unroll 3
    for (int layer = 0; layer < LOG; ++layer) {
        const int half = (1 << LOG) >> (layer + 1);
        const int blocks = 1 << layer;
#pragma GCC unroll 4
        for (int block = 0; block < blocks; ++block) {
            __m256d* even = v + 2 * block * half;
            const Factor w = t[(1 << layer) + block];
#pragma GCC unroll 4
            for (int i = 0; i < half; ++i)
                forward_butterfly(even[i], even[half + i], Product(even[half + i], w, m));
        }
    }
}

// Layers LOG - 1 down to LAST.
template <int LAST, int LOG>
CIPHERBLAS_INLINE void inverse_layers(__m256d* v, const PassTwiddles<LOG>& t, const Lanes& m) {
#pragma GCC unroll 3
    for (int layer = LOG - 1; layer >= LAST; --layer) {
        const int half = (1 << LOG) >> (layer + 1);
        const int blocks = 1 << layer;
#pragma GCC unroll 4
        for (int block = 0; block < blocks; ++block) {
            __m256d* even = v + 2 * block * half;
            const Factor w = t[(1 << layer) + block];
#pragma GCC unroll 4
            for (int i = 0; i < half; ++i) inverse_butterfly(even[i], even[half + i], w, m);
        }
    }
}

// All layers below the blocks node to node + blocks - 1 of 32 words each; float64 in, reduced words out. The last two
// layers go without another reduction of their values, which reach 4.46 and 6.64.
void forward_tail(Word* x, std::size_t node, std::size_t blocks, const Word* roots, const Lanes m) {
    for (std::size_t end = node + blocks; node < end; ++node, x += 32) {
        __m256d v[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) v[i] = reduce(load_real(x + 4 * i), m);
        forward_layers(v, PassTwiddles<3>(node, roots, m), m);
#pragma GCC unroll 4
        for (int i = 0; i < 8; i += 2) {
            exchange_halves(v[i], v[i + 1]);
            const Factor w(two_pairs(roots + 8 * node + i), m);
            forward_butterfly(v[i], v[i + 1], Product::of_large(v[i + 1], w, m));
        }
#pragma GCC unroll 4
        for (int i = 0; i < 8; i += 2) {
            interleave(v[i], v[i + 1]);
            const Factor w(load_words(roots + 16 * node + 2 * i), m);
            forward_butterfly(v[i], v[i + 1], Product::of_large(v[i + 1], w, m));
            interleave(v[i], v[i + 1]);
            exchange_halves(v[i], v[i + 1]);
            store(x + 4 * i, to_residue(reduce(v[i], m), m));
            store(x + 4 * i + 4, to_residue(reduce(v[i + 1], m), m));
        }
    }
}

// The same upwards; reduced words in, float64 out.
void inverse_tail(Word* x, std::size_t node, std::size_t blocks, const Word* roots, const Lanes m) {
    for (std::size_t end = node + blocks; node < end; ++node, x += 32) {
        __m256d v[8];
#pragma GCC unroll 4
        for (int i = 0; i < 8; i += 2) {
            v[i] = load_words(x + 4 * i);
            v[i + 1] = load_words(x + 4 * i + 4);
            exchange_halves(v[i], v[i + 1]);
            interleave(v[i], v[i + 1]);
            inverse_butterfly(v[i], v[i + 1], Factor(load_words(roots + 16 * node + 2 * i), m), m);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 8; i += 2) {
            interleave(v[i], v[i + 1]);
            inverse_butterfly(v[i], v[i + 1], Factor(two_pairs(roots + 8 * node + i), m), m);
            exchange_halves(v[i], v[i + 1]);
        }
        inverse_layers<0>(v, PassTwiddles<3>(node, roots, m), m);
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) store_real(x + 4 * i, v[i]);
    }
}

// One pass over the block `node` of 2^log_size words; the first one (node 1) reads words.
template <int LOG>
void forward_pass(Word* x, int log_size, std::size_t node, const Word* roots, const Lanes m) {
    const std::size_t stride = std::size_t{1} << (log_size - LOG);
    const PassTwiddles<LOG> twiddles(node, roots, m);
    for (std::size_t offset = 0; offset < stride; offset += 4) {
        __m256d v[1 << LOG];
#pragma GCC unroll 8
        for (int i = 0; i < (1 << LOG); ++i) {
            const Word* p = x + i * stride + offset;
            v[i] = reduce(node == 1 ? load_words(p) : load_real(p), m);
        }
        forward_layers(v, twiddles, m);
#pragma GCC unroll 8
        for (int i = 0; i < (1 << LOG); ++i) store_real(x + i * stride + offset, v[i]);
    }
}

template <int LOG>
void inverse_pass(Word* x, int log_size, std::size_t node, const Word* roots, const Lanes m) {
    const std::size_t stride = std::size_t{1} << (log_size - LOG);
    const PassTwiddles<LOG> twiddles(node, roots, m);
    for (std::size_t offset = 0; offset < stride; offset += 4) {
        __m256d v[1 << LOG];
#pragma GCC unroll 8
        for (int i = 0; i < (1 << LOG); ++i) v[i] = load_real(x + i * stride + offset);
        inverse_layers<0>(v, twiddles, m);
#pragma GCC unroll 8
        for (int i = 0; i < (1 << LOG); ++i) store_real(x + i * stride + offset, v[i]);
    }
}

// The last pass of the whole inverse transform: its last layer, stride N/2, also multiplies by N^-1, and it writes words.
template <int LOG>
void inverse_pass_last(Word* x, const NttTable& table, const Lanes m) {
    constexpr int kHalf = 1 << (LOG - 1);
    const std::size_t stride = std::size_t{1} << (table.log_n - LOG);
    const PassTwiddles<LOG> twiddles(1, table.inverse_roots.plain.data(), m);
    const Factor factor(broadcast(static_cast<double>(table.n_inverse)), m);
    const Factor w(broadcast(static_cast<double>(table.last_root)), m);
    for (std::size_t offset = 0; offset < stride; offset += 4) {
        __m256d v[1 << LOG];
#pragma GCC unroll 8
        for (int i = 0; i < (1 << LOG); ++i) v[i] = load_real(x + i * stride + offset);
        inverse_layers<1>(v, twiddles, m);
#pragma GCC unroll 4
        for (int i = 0; i < kHalf; ++i) {
            const __m256d sum = multiply(_mm256_add_pd(v[i], v[kHalf + i]), factor, m);
            const __m256d difference = multiply(_mm256_sub_pd(v[i], v[kHalf + i]), w, m);
            store(x + i * stride + offset, to_residue(sum, m));
            store(x + (kHalf + i) * stride + offset, to_residue(difference, m));
        }
    }
}

// The radix (as its logarithm) of the next pass on a block of 2^log_size > 32 words: 8, after one odd pass.
CIPHERBLAS_INLINE int next_pass(int log_size) {
    const int rest = (log_size - kTailLog) % 3;
    return rest == 0 ? 3 : rest;
}

void forward(Word* x, int log_size, std::size_t node, const Word* roots, const Lanes& m) {
    const int log_radix = next_pass(log_size);
    switch (log_radix) {
        case 1:
            forward_pass<1>(x, log_size, node, roots, m);
            break;
        case 2:
            forward_pass<2>(x, log_size, node, roots, m);
            break;
        default:
            forward_pass<3>(x, log_size, node, roots, m);
            break;
    }
    const int log_child = log_size - log_radix;
    if (log_child == kTailLog)
        return forward_tail(x, node << log_radix, std::size_t{1} << log_radix, roots, m);
    for (std::size_t child = 0; child < std::size_t{1} << log_radix; ++child) {
        forward(x + (child << log_child), log_child, (node << log_radix) + child, roots, m);
    }
}

void inverse(Word* x, int log_size, std::size_t node, const NttTable& table, const Lanes& m) {
    const Word* roots = table.inverse_roots.plain.data();
    const int log_radix = next_pass(log_size);
    const int log_child = log_size - log_radix;
    if (log_child == kTailLog) {
        inverse_tail(x, node << log_radix, std::size_t{1} << log_radix, roots, m);
    } else {
        for (std::size_t child = 0; child < std::size_t{1} << log_radix; ++child) {
            inverse(x + (child << log_child), log_child, (node << log_radix) + child, table, m);
        }
    }
    switch (log_radix) {
        case 1:
            return node == 1 ? inverse_pass_last<1>(x, table, m)
                             : inverse_pass<1>(x, log_size, node, roots, m);
        case 2:
            return node == 1 ? inverse_pass_last<2>(x, table, m)
                             : inverse_pass<2>(x, log_size, node, roots, m);
        default:
            return node == 1 ? inverse_pass_last<3>(x, table, m)
                             : inverse_pass<3>(x, log_size, node, roots, m);
    }
}

}  // namespace

// Up to 32 words there is no pass besides the tail: such toy degrees take the scalar path.
void ntt(Word* x, const NttTable& table) {
    if (table.log_n <= kTailLog) return scalar_table()->ntt(x, table);
    forward(x, table.log_n, 1, table.roots.plain.data(), Lanes(table.modulus));
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
    const Lanes m(table.modulus);
    for (std::size_t i = 0; i < count; i += 4) store_real(r + i, load_words(a + i));
    std::fill_n(r + count, size - count, 0);
    for (Word* to = r + size; to < r + length; to += size) std::copy_n(r, size, to);
    const Word* const roots = table.roots.plain.data();
    if (size == kBlock) return forward_tail(r, node, length / kBlock, roots, m);
    for (std::size_t block = 0; block < length / size; ++block) {
        forward(r + block * size, std::countr_zero(size), node + block, roots, m);
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
            Sum sum;
            lift.add_to(sum, load_signed(a + i));
            store(r + i, to_residue(lifted(sum, m), m));
        }
        return ntt(r, table);
    }
    const Lift of_mirrored(mul_mod(modulus.q - table.roots.plain[1], factor, modulus), modulus);
    for (std::size_t i = 0; i < n / 2; i += 4) {
        Sum sum;
        lift.add_to(sum, load_signed(a + i));
        of_mirrored.add_to(sum, _mm256_permute4x64_epi64(load_signed(a + n / 2 - i - 3), 0x1b));
        store_real(r + i, lifted(sum, m));
    }
    forward(r, table.log_n - 1, 2, table.roots.plain.data(), m);
    for (std::size_t i = 0; i < n / 2; i += 4) {
        store(r + n - 4 - i, _mm256_permute4x64_epi64(load(r + i), 0x1b));
    }
}

void intt(Word* x, const NttTable& table) {
    if (table.log_n <= kTailLog) return scalar_table()->intt(x, table);
    inverse(x, table.log_n, 1, table, Lanes(table.modulus));
}

}  // namespace cipherblas::avx2
