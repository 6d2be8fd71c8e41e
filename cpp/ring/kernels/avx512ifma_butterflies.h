// The butterflies of the NTT with AVX-512 IFMA, and the passes in which they are grouped.
//
// Bounds (Harvey 2014): q < 2^50, so a word below 4q is a valid 52-bit multiplicand. Forward: values enter a
// butterfly below 4q, u is brought below 2q, v = odd * w is in [0, 2q): u + v and u - v + 2q are below 4q.
// Inverse: values enter below 2q, u + v is brought below 2q, u - v + 2q < 4q is the multiplicand and the
// product is below 2q.
#pragma once
#include "ring/kernels/avx512ifma_math.h"
#include "ring/ntt.h"

namespace cipherblas::avx512ifma {

namespace {

constexpr int kTailLog = 6;      // the tail runs the last six layers, on 64 words
constexpr int kLastPassLog = 4;  // the pass before it at most so many

struct Twiddles {
    const Word* plain;
    const Word* quotient;
    const Word* montgomery;

    CIPHERBLAS_INLINE explicit Twiddles(const NttTable::Powers& powers)
        : plain(powers.plain.data()),
          quotient(powers.quotient.data()),
          montgomery(powers.montgomery.data()) {}
};

// ---- butterflies

CIPHERBLAS_INLINE void forward_butterfly(__m512i& even, __m512i& odd, __m512i w, __m512i quotient,
                                         const Lanes& m) {
    const __m512i u = subtract_once(even, m.twice_q);
    const __m512i v = shoup_product(odd, w, quotient, m);
    even = add(u, v);
    odd = sub(add(u, m.twice_q), v);
}

// The same with one twiddle word per lane, in Montgomery form: half the table to stream, one multiplication
// more.
CIPHERBLAS_INLINE void forward_butterfly(__m512i& even, __m512i& odd, __m512i w_montgomery, const Lanes& m) {
    const __m512i u = add(subtract_once(even, m.twice_q), m.q);
    const __m512i v = montgomery_product(odd, w_montgomery, m);
    even = add(u, v);
    odd = sub(u, v);
}

// The last layer: fully reduced results.
CIPHERBLAS_INLINE void forward_butterfly_last(__m512i& even, __m512i& odd, __m512i w_montgomery,
                                              const Lanes& m) {
    const __m512i u = subtract_once(subtract_once(even, m.twice_q), m.q);
    const __m512i v = add_once(montgomery_product(odd, w_montgomery, m), m.q);
    even = subtract_once(add(u, v), m.q);
    odd = add_once(sub(u, v), m.q);
}

CIPHERBLAS_INLINE void inverse_butterfly(__m512i& even, __m512i& odd, __m512i w, __m512i quotient,
                                         const Lanes& m) {
    const __m512i difference = sub(add(even, m.twice_q), odd);
    even = subtract_once(add(even, odd), m.twice_q);
    odd = shoup_product(difference, w, quotient, m);
}

CIPHERBLAS_INLINE void inverse_butterfly(__m512i& even, __m512i& odd, __m512i w_montgomery, const Lanes& m) {
    const __m512i difference = sub(add(even, m.twice_q), odd);
    even = subtract_once(add(even, odd), m.twice_q);
    odd =
        montgomery_signed(add_high(m.q, difference, w_montgomery), low_product(difference, w_montgomery), m);
}

// ---- passes

// The layers of a radix-2^LOG pass on BLOCKS adjacent blocks in registers. node is the number of the first butterfly
// block in the tree of all blocks (1 for the whole transform, children 2 node and 2 node + 1), and so the index of its
// twiddle.
template <int LOG, int BLOCKS>
struct PassTwiddles {
    __m512i w[BLOCKS << LOG], quotient[BLOCKS << LOG];

    // Where the twiddle of a block of a layer stands in the arrays.
    static constexpr int place(int layer, int block) { return BLOCKS * ((1 << layer) - 1) + block; }

    CIPHERBLAS_INLINE PassTwiddles(std::size_t node, const Twiddles& t) {
#pragma GCC unroll 4
        for (int layer = 0; layer < LOG; ++layer) {
            const int blocks = BLOCKS << layer;
#pragma GCC unroll 8
            for (int block = 0; block < blocks; ++block) {
                w[place(layer, block)] = broadcast(t.plain[(node << layer) + block]);
                quotient[place(layer, block)] = broadcast(t.quotient[(node << layer) + block]);
            }
        }
    }
};

// All butterflies of one layer: butterfly(even, odd, w, quotient). GROUPS columns (2^LOG * BLOCKS vectors each) go side by
// side: about sixteen registers, because the butterflies of eight would wait for each other.
template <int GROUPS, int LOG, int BLOCKS, typename Butterfly>
CIPHERBLAS_INLINE void run_layer(int layer, __m512i (*v)[BLOCKS << LOG], const PassTwiddles<LOG, BLOCKS>& t,
                                 const Butterfly& butterfly) {
    const int half = (1 << LOG) >> (layer + 1);
    const int blocks = BLOCKS << layer;
#pragma GCC unroll 8
    for (int block = 0; block < blocks; ++block) {
        const int even = 2 * block * half;
        const int k = t.place(layer, block);
#pragma GCC unroll 8
        for (int i = even; i < even + half; ++i) {
#pragma GCC unroll 8
            for (int g = 0; g < GROUPS; ++g) butterfly(v[g][i], v[g][i + half], t.w[k], t.quotient[k]);
        }
    }
}

template <int GROUPS, int LOG, int BLOCKS>
CIPHERBLAS_INLINE void forward_layers(__m512i (*v)[BLOCKS << LOG], const PassTwiddles<LOG, BLOCKS>& t,
                                      const Lanes& m) {
#pragma GCC unroll 4
    for (int layer = 0; layer < LOG; ++layer) {
        run_layer<GROUPS>(layer, v, t, [&](__m512i& even, __m512i& odd, __m512i w, __m512i quotient) {
            forward_butterfly(even, odd, w, quotient, m);
        });
    }
}

// Layers LOG - 1 down to LAST.
template <int GROUPS, int LAST, int LOG, int BLOCKS>
CIPHERBLAS_INLINE void inverse_layers(__m512i (*v)[BLOCKS << LOG], const PassTwiddles<LOG, BLOCKS>& t,
                                      const Lanes& m) {
#pragma GCC unroll 4
    for (int layer = LOG - 1; layer >= LAST; --layer) {
        run_layer<GROUPS>(layer, v, t, [&](__m512i& even, __m512i& odd, __m512i w, __m512i quotient) {
            inverse_butterfly(even, odd, w, quotient, m);
        });
    }
}

// How many columns of a radix-2^LOG pass go side by side.
constexpr int pass_groups(int log_radix) { return log_radix < 2 ? 4 : 16 >> log_radix; }

// body(group, place): vector `place` of column `group`.
template <int GROUPS, int VECTORS, typename Body>
CIPHERBLAS_INLINE void for_each_vector(const Body& body) {
#pragma GCC unroll 8
    for (int g = 0; g < GROUPS; ++g) {
#pragma GCC unroll 16
        for (int i = 0; i < VECTORS; ++i) body(g, i);
    }
}

// The radix (as its logarithm) of the next pass on a block of 2^log_size words; 0: only the tail is left. The
// pass before the tail has radix 16 if it can. Radix 16 at a stride of 4 KiB or more would put 16 lines into
// one set of a 12-way cache; radix 8 does not.
CIPHERBLAS_INLINE int next_pass(int log_size) {
    const int layers = log_size - kTailLog;
    if (layers <= kLastPassLog) return layers;
    const int before_last = layers - kLastPassLog;
    return before_last % 3 == 0 ? 3 : before_last % 3 == 1 && before_last > 1 ? 2 : before_last % 3;
}

}  // namespace

}  // namespace cipherblas::avx512ifma
