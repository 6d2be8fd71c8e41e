// The butterflies of the NTT with AVX-512 IFMA, and the passes in which they are grouped.
//
// Values in the registers and between passes are 52-bit words with anything above: a multiplication reads the low 52 bits,
// sums and differences are right modulo 2^52. What matters is that the word is the value, not negative and below 2^52. A
// product comes out in [-q, q), so that a butterfly u + v, u - v widens the interval that holds all values by q on either
// side. `SPAN` layers after a reduction to [SPAN q, (SPAN + 2) q) it is [0, (2 SPAN + 2) q), and the next reduction is due:
// one layer for any q, seven for q < 2^48, and for q < 2^46 more than there are (the lazy butterflies of Harvey 2014, carried
// on for as long as there is room).
//
// Inverse: values are not negative. Sums double the bound 2q, up to the 52 bits: three layers for q < 2^48, one for any
// q. Differences are multiplied, and below 2q again.
#pragma once
#include <algorithm>
#include <type_traits>

#include "ring/kernels/avx512ifma_math.h"
#include "ring/ntt.h"

namespace cipherblas::avx512ifma {

namespace {

constexpr int kTailLog = 6;      // the tail runs the last six layers, on 64 words
constexpr int kLastPassLog = 4;  // the pass before it at most so many

struct Twiddles {
    const Word* plain;
    const Word* quotient;

    CIPHERBLAS_INLINE explicit Twiddles(const NttTable::Powers& powers)
        : plain(powers.plain.data()), quotient(powers.quotient.data()) {}
};

// The layers that follow a reduction, for all primes, those below 2^kRoomyBits and those below 2^kLooseBits.
constexpr int kTightSpan = 1;
constexpr int kRoomyBits = 48;
constexpr int kRoomySpan = 7;
constexpr int kLooseBits = 46;
constexpr int kLooseSpan = 30;

// A conversion leaves values in [0, 4q) or, where there is room, in [room q, (room + 4) q): so many layers can follow.
constexpr int converted_room(int span) { return span == kTightSpan ? 0 : span - 1; }

// What the butterflies need of a modulus.
template <int SPAN>
struct Field : Lanes {
    // Inverse: so many layers of sums fit a word.
    static constexpr int kSumLayers = SPAN == kTightSpan ? 1 : 3;

    __m512i one;
    __m512i reciprocal;  // floor(2^52 / q)
    __m512i minus_span;  // -SPAN
    __m512i span;        // SPAN q

    CIPHERBLAS_INLINE explicit Field(const Modulus& modulus)
        : Lanes(modulus),
          one(broadcast(1)),
          reciprocal(broadcast(word_reciprocal(modulus))),
          minus_span(broadcast(-static_cast<Word>(SPAN))),
          span(broadcast(static_cast<Word>(SPAN) * modulus.q)) {}

    // x modulo q in [0, 2q) and, spread, SPAN q more.
    CIPHERBLAS_INLINE __m512i reduce(__m512i x) const {
        return add_low(x, high_product(x, reciprocal), minus_q);
    }
    CIPHERBLAS_INLINE __m512i reduce_spread(__m512i x) const {
        return add_low(x, add_high(minus_span, x, reciprocal), minus_q);
    }
    // x modulo q in [0, q), nothing above.
    CIPHERBLAS_INLINE __m512i canonical(__m512i x) const {
        return subtract_once(_mm512_and_si512(reduce(x), mask), q);
    }
    // x * w modulo q in [0, 2q).
    CIPHERBLAS_INLINE __m512i product(__m512i x, __m512i w, __m512i quotient) const {
        return add_low(low_product(x, w), high_product(x, quotient), minus_q);
    }
    // w for quotient = floor(w 2^52 / q): q quotient is less than w 2^52, by q at the most.
    CIPHERBLAS_INLINE __m512i root(__m512i quotient) const { return add_high(one, quotient, q); }
    // a + x modulo q, a word, for a in [0, q) and a value x that the forward transform ends with: below 15 q for q < 2^48,
    // the tail having begun with a reduction, and below 50 q for q < 2^46.
    CIPHERBLAS_INLINE __m512i sum(__m512i a, __m512i x) const {
        return add(a, SPAN == kTightSpan ? reduce(x) : x);
    }
};

// body(field) for the modulus.
template <typename Body>
void with_field(const Modulus& modulus, const Body& body) {
    if (modulus.bits <= kLooseBits) {
        body(Field<kLooseSpan>(modulus));
    } else if (modulus.bits <= kRoomyBits) {
        body(Field<kRoomySpan>(modulus));
    } else {
        body(Field<kTightSpan>(modulus));
    }
}

// ---- butterflies

// What goes into a layer of the forward transform: values within the span, any, or residues.
enum class Inputs { kSpread, kAny, kResidues };

template <int SPAN>
constexpr Inputs kBetweenLayers = SPAN == kTightSpan ? Inputs::kAny : Inputs::kSpread;

template <Inputs INPUTS, int SPAN>
CIPHERBLAS_INLINE void forward_butterfly(__m512i& even, __m512i& odd, __m512i w, __m512i quotient,
                                         const Field<SPAN>& f) {
    const __m512i u = INPUTS == Inputs::kResidues ? add(even, f.span)
                      : INPUTS == Inputs::kAny    ? f.reduce_spread(even)
                                                  : even;
    // u + v from u on, and u - v = 2u - (u + v): that saves the register of v.
    const __m512i estimate = add_high(f.one, odd, quotient), twice = add(u, u);
    even = add_low(add_low(u, odd, w), estimate, f.minus_q);
    odd = sub(twice, even);
}

// The same with one twiddle per lane, of which only the quotient is read: half the table to stream, one multiplication more.
template <int SPAN>
CIPHERBLAS_INLINE void forward_butterfly(__m512i& even, __m512i& odd, __m512i quotient,
                                         const Field<SPAN>& f) {
    forward_butterfly<kBetweenLayers<SPAN>>(even, odd, f.root(quotient), quotient, f);
}

// `offset`: a multiple of q that no `odd` exceeds.
template <int SPAN>
CIPHERBLAS_INLINE void inverse_butterfly(__m512i& even, __m512i& odd, __m512i w, __m512i quotient,
                                         __m512i offset, const Field<SPAN>& f) {
    const __m512i difference = sub(add(even, offset), odd);
    even = add(even, odd);
    odd = f.product(difference, w, quotient);
}

template <int SPAN>
CIPHERBLAS_INLINE void inverse_butterfly(__m512i& even, __m512i& odd, __m512i quotient, __m512i offset,
                                         const Field<SPAN>& f) {
    inverse_butterfly(even, odd, f.root(quotient), quotient, offset, f);
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

template <int GROUPS, Inputs INPUTS, int SPAN, int LOG, int BLOCKS>
CIPHERBLAS_INLINE void forward_layers(__m512i (*v)[BLOCKS << LOG], const PassTwiddles<LOG, BLOCKS>& t,
                                      const Field<SPAN>& f) {
    run_layer<GROUPS>(0, v, t, [&](__m512i& even, __m512i& odd, __m512i w, __m512i quotient) {
        constexpr Inputs kFirst = INPUTS == Inputs::kSpread ? kBetweenLayers<SPAN> : INPUTS;
        forward_butterfly<kFirst>(even, odd, w, quotient, f);
    });
#pragma GCC unroll 4
    for (int layer = 1; layer < LOG; ++layer) {
        run_layer<GROUPS>(layer, v, t, [&](__m512i& even, __m512i& odd, __m512i w, __m512i quotient) {
            forward_butterfly<kBetweenLayers<SPAN>>(even, odd, w, quotient, f);
        });
    }
}

// In the inverse transform: how many layers, after `done` of a pass, register i has been a sum. Layer by layer the bits of
// i, from the lowest, say what it was: a sum where the bit is 0, a product where it is 1.
constexpr int sum_layers(int i, int done) {
    int layers = 0;
    while (layers < done && (i >> (done - 1 - layers) & 1) == 0) ++layers;
    return layers;
}

// A multiple of q that no value exceeds after `done` layers of a pass.
template <int SPAN>
CIPHERBLAS_INLINE __m512i sum_bound(int done, const Field<SPAN>& f) {
    return shift_left(f.twice_q, static_cast<unsigned>(std::min(done, Field<SPAN>::kSumLayers - 1)));
}

// Layers LOG - 1 down to LAST, of values below 2q. With the last layer of the pass they are so again.
template <int GROUPS, int LAST, int SPAN, int LOG, int BLOCKS>
CIPHERBLAS_INLINE void inverse_layers(__m512i (*v)[BLOCKS << LOG], const PassTwiddles<LOG, BLOCKS>& t,
                                      const Field<SPAN>& f) {
#pragma GCC unroll 4
    for (int layer = LOG - 1; layer >= LAST; --layer) {
        const int done = LOG - layer;
        const __m512i bound = sum_bound(done - 1, f);
        run_layer<GROUPS>(layer, v, t, [&](__m512i& even, __m512i& odd, __m512i w, __m512i quotient) {
            inverse_butterfly(even, odd, w, quotient, bound, f);
        });
        const int most = layer == 0 ? 0 : Field<SPAN>::kSumLayers - 1;
#pragma GCC unroll 16
        for (int i = 0; i < BLOCKS << LOG; ++i) {
            if (sum_layers(i % (1 << LOG), done) <= most) continue;
#pragma GCC unroll 8
            for (int g = 0; g < GROUPS; ++g) v[g][i] = f.reduce(v[g][i]);
        }
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

// body(stride) of a radix-2^LOG pass over 2^log_size words, as a constant where it is one of the usual strides: the
// arithmetic of addresses takes the ports of the butterflies. with_first_stride is for the first pass of a transform.
constexpr int kLastPassSize = kTailLog + kLastPassLog;
constexpr int kFirstStride = kLastPassSize + 3;  // of N = 2^16 and 2^15

template <int LOG_STRIDE>
using Stride = std::integral_constant<std::size_t, std::size_t{1} << LOG_STRIDE>;

template <int LOG, typename Body>
CIPHERBLAS_INLINE void with_stride(int log_size, const Body& body) {
    const int log_stride = log_size - LOG;
    if (log_stride == kTailLog) return body(Stride<kTailLog>());
    if (log_stride == kLastPassSize) return body(Stride<kLastPassSize>());
    body(std::size_t{1} << log_stride);
}

template <int LOG, typename Body>
CIPHERBLAS_INLINE void with_first_stride(int log_n, const Body& body) {
    if (log_n - LOG == kFirstStride) return body(Stride<kFirstStride>());
    body(std::size_t{1} << (log_n - LOG));
}

}  // namespace

}  // namespace cipherblas::avx512ifma
