// Negacyclic NTT with AVX-512 IFMA.
//
// The layers are grouped into passes of radix 2^LOG that keep 2^LOG vectors in registers; the last six layers
// work on 64 contiguous words held in eight registers. Passes recur depth first, so that a sub-transform runs
// all its remaining layers while it is in the innermost cache that holds it.
//
// Bounds (Harvey 2014): q < 2^50, so a word below 4q is a valid 52-bit multiplicand. Forward: values enter a
// butterfly below 4q, u is brought below 2q, v = odd * w is in [0, 2q): u + v and u - v + 2q are below 4q.
// Inverse: values enter below 2q, u + v is brought below 2q, u - v + 2q < 4q is the multiplicand and the
// product is below 2q.
#include "ring/kernels/avx512ifma_ntt.h"

#include "ring/kernels/avx512ifma_math.h"
#include "ring/kernels/tables.h"

namespace cipherblas::avx512ifma {

namespace {

constexpr int kTailLog = 6;  // the tail runs the last six layers, on 64 words

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

// ---- the six layers inside 64 words

// Two vectors hold 16 words a0..a7, b0..b7. The last three layers want all even partners in one vector and
// all odd ones in the other. The perfect shuffle (lanes of the first and the second vector in turn), done
// before each of them and once more at the end, does that, ends in the natural order, and lets every layer
// read its twiddles by a plain load:
//   stride 4:  a0 b0 a1 b1 a2 b2 a3 b3 | a4 b4 a5 b5 a6 b6 a7 b7   twiddles  0 1 0 1 0 1 0 1
//   stride 2:  a0 a4 b0 b4 a1 a5 b1 b5 | a2 a6 b2 b6 a3 a7 b3 b7   twiddles  0 1 2 3 0 1 2 3
//   stride 1:  a0 a2 a4 a6 b0 b2 b4 b6 | a1 a3 a5 a7 b1 b3 b5 b7   twiddles  0 1 2 3 4 5 6 7
struct Shuffle {
    __m512i first, second;  // lanes 0 to 7 of the first vector, 8 to 15 of the second

    CIPHERBLAS_INLINE void operator()(__m512i& a, __m512i& b) const {
        const __m512i x = _mm512_permutex2var_epi64(a, first, b);
        b = _mm512_permutex2var_epi64(a, second, b);
        a = x;
    }
};

CIPHERBLAS_INLINE Shuffle perfect_shuffle() {
    return {_mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15)};
}

CIPHERBLAS_INLINE Shuffle inverse_perfect_shuffle() {
    return {_mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15)};
}

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

template <int LOG, int BLOCKS>
CIPHERBLAS_INLINE void forward_layers(__m512i* v, const PassTwiddles<LOG, BLOCKS>& t, const Lanes& m) {
#pragma GCC unroll 4
    for (int layer = 0; layer < LOG; ++layer) {
        const int half = (1 << LOG) >> (layer + 1);
        const int blocks = BLOCKS << layer;
#pragma GCC unroll 8
        for (int block = 0; block < blocks; ++block) {
            __m512i* even = v + 2 * block * half;
            const int k = t.place(layer, block);
#pragma GCC unroll 8
            for (int i = 0; i < half; ++i)
                forward_butterfly(even[i], even[half + i], t.w[k], t.quotient[k], m);
        }
    }
}

// Layers LOG - 1 down to LAST.
template <int LAST, int LOG, int BLOCKS>
CIPHERBLAS_INLINE void inverse_layers(__m512i* v, const PassTwiddles<LOG, BLOCKS>& t, const Lanes& m) {
#pragma GCC unroll 4
    for (int layer = LOG - 1; layer >= LAST; --layer) {
        const int half = (1 << LOG) >> (layer + 1);
        const int blocks = BLOCKS << layer;
#pragma GCC unroll 8
        for (int block = 0; block < blocks; ++block) {
            __m512i* even = v + 2 * block * half;
            const int k = t.place(layer, block);
#pragma GCC unroll 8
            for (int i = 0; i < half; ++i)
                inverse_butterfly(even[i], even[half + i], t.w[k], t.quotient[k], m);
        }
    }
}

// The tail waits for memory more than it computes where tables and operands are not in the caches: it asks for what it
// will read so many blocks of 64 words later, about the time of a block of the other row. From this node on the limb has
// 2^15 words or more; smaller ones stay in the caches.
constexpr std::size_t kAheadBlocks = 16;
constexpr std::size_t kAheadNode = 512;

template <int LINES>
CIPHERBLAS_INLINE void fetch_lines(const Word* p) {
#pragma GCC unroll 16
    for (int i = 0; i < LINES; ++i) _mm_prefetch(reinterpret_cast<const char*>(p + 8 * i), _MM_HINT_T0);
}

// What the forward transform does with its values: it keeps them,
struct Keep {
    CIPHERBLAS_INLINE void fetch(std::size_t, const Word*) const {}
    CIPHERBLAS_INLINE void operator()(std::size_t, Word* x, __m512i value, const Lanes&) const {
        store(x, value);
    }
};

// or they are subtracted from a, times a constant: row k is at x[k], and the result at the same place of r[k].
struct SubtractFrom {
    const Word* x[2];
    Word* r[2];
    const Word* a[2];
    __m512i factor, quotient;

    CIPHERBLAS_INLINE void fetch(std::size_t row, const Word* at) const {
        const std::ptrdiff_t offset = at - x[row] + static_cast<std::ptrdiff_t>(64 * kAheadBlocks);
        fetch_lines<16>(a[row] + offset);
        fetch_lines<16>(r[row] + offset);
    }
    CIPHERBLAS_INLINE void operator()(std::size_t row, const Word* at, __m512i value, const Lanes& m) const {
        const std::ptrdiff_t offset = at - x[row];
        const __m512i difference = sub(add(load(a[row] + offset), m.q), value);  // in (0, 2q)
        store(r[row] + offset, subtract_once(shoup_product(difference, factor, quotient, m), m.q));
    }
};

// All layers below the blocks node to node + blocks - 1 of 64 words each. Two blocks go side by side, 16 registers wide:
// the butterflies of one alone would wait for each other.
template <typename Finish>
void forward_tail(std::size_t row, Word* x, std::size_t node, std::size_t blocks, const Twiddles t,
                  const Lanes m, const Finish finish) {
    const bool ahead = node >= kAheadNode;
    const Shuffle shuffle = perfect_shuffle();
    for (std::size_t end = node + blocks; node < end; node += 2, x += 128) {
        if (ahead && row == 0) {
            fetch_lines<8>(t.montgomery + 32 * (node + kAheadBlocks));
            fetch_lines<4>(t.montgomery + 16 * (node + kAheadBlocks));
            fetch_lines<2>(t.montgomery + 8 * (node + kAheadBlocks));
        }
        if (ahead) finish.fetch(row, x);
        __m512i v[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) v[i] = load(x + 8 * i);
        forward_layers(v, PassTwiddles<3, 2>(node, t), m);
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            shuffle(v[i], v[i + 1]);
            forward_butterfly(v[i], v[i + 1], repeat_two(t.montgomery + 8 * node + i), m);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            shuffle(v[i], v[i + 1]);
            forward_butterfly(v[i], v[i + 1], repeat_four(t.montgomery + 16 * node + 2 * i), m);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            shuffle(v[i], v[i + 1]);
            forward_butterfly_last(v[i], v[i + 1], load(t.montgomery + 32 * node + 4 * i), m);
            shuffle(v[i], v[i + 1]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) finish(row, x + 8 * i, v[i], m);
    }
}

void inverse_tail(Word* x, const Word* from, std::size_t node, std::size_t blocks, const Twiddles t,
                  const Lanes m) {
    const Shuffle shuffle = inverse_perfect_shuffle();
    for (std::size_t end = node + blocks; node < end; node += 2, x += 128, from += 128) {
        __m512i v[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) v[i] = load(from + 8 * i);
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            shuffle(v[i], v[i + 1]);
            inverse_butterfly(v[i], v[i + 1], load(t.montgomery + 32 * node + 4 * i), m);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            shuffle(v[i], v[i + 1]);
            inverse_butterfly(v[i], v[i + 1], repeat_four(t.montgomery + 16 * node + 2 * i), m);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            shuffle(v[i], v[i + 1]);
            inverse_butterfly(v[i], v[i + 1], repeat_two(t.montgomery + 8 * node + i), m);
            shuffle(v[i], v[i + 1]);
        }
        inverse_layers<0>(v, PassTwiddles<3, 2>(node, t), m);
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) store(x + 8 * i, v[i]);
    }
}

// ---- passes

// One pass over the block `node` of 2^log_size words.
template <int LOG>
void forward_pass(Word* x, int log_size, std::size_t node, const Twiddles& t, const Lanes m) {
    const std::size_t stride = std::size_t{1} << (log_size - LOG);
    const PassTwiddles<LOG, 1> twiddles(node, t);
    for (std::size_t offset = 0; offset < stride; offset += 8) {
        __m512i v[1 << LOG];
#pragma GCC unroll 16
        for (int i = 0; i < (1 << LOG); ++i) v[i] = load(x + i * stride + offset);
        forward_layers(v, twiddles, m);
#pragma GCC unroll 16
        for (int i = 0; i < (1 << LOG); ++i) store(x + i * stride + offset, v[i]);
    }
}

template <int LOG>
void inverse_pass(Word* x, int log_size, std::size_t node, const Twiddles& t, const Lanes m) {
    const std::size_t stride = std::size_t{1} << (log_size - LOG);
    const PassTwiddles<LOG, 1> twiddles(node, t);
    for (std::size_t offset = 0; offset < stride; offset += 8) {
        __m512i v[1 << LOG];
#pragma GCC unroll 16
        for (int i = 0; i < (1 << LOG); ++i) v[i] = load(x + i * stride + offset);
        inverse_layers<0>(v, twiddles, m);
#pragma GCC unroll 16
        for (int i = 0; i < (1 << LOG); ++i) store(x + i * stride + offset, v[i]);
    }
}

// What the last layer of the inverse transform multiplies its sums and its differences by: N^-1, or a multiple of it.
struct LastFactors {
    Word sum, sum_quotient, difference, difference_quotient;

    explicit LastFactors(const NttTable& table)
        : sum(table.n_inverse),
          sum_quotient(table.n_inverse_quotient),
          difference(table.last_root),
          difference_quotient(table.last_root_quotient) {}

    LastFactors(const NttTable& table, Word factor)
        : sum(mul_mod(table.n_inverse, factor, table.modulus)),
          sum_quotient(shoup_quotient(sum, table.modulus)),
          difference(mul_mod(table.last_root, factor, table.modulus)),
          difference_quotient(shoup_quotient(difference, table.modulus)) {}
};

// The first pass of the whole inverse transform's end: its last layer, stride N/2, also multiplies by N^-1.
template <int LOG>
void inverse_pass_last(Word* x, int log_n, const LastFactors& last, const Twiddles& t, const Lanes m) {
    constexpr int kHalf = 1 << (LOG - 1);
    const std::size_t stride = std::size_t{1} << (log_n - LOG);
    const PassTwiddles<LOG, 1> twiddles(1, t);
    const __m512i factor = broadcast(last.sum);
    const __m512i factor_quotient = broadcast(last.sum_quotient);
    const __m512i w = broadcast(last.difference);
    const __m512i quotient = broadcast(last.difference_quotient);
    for (std::size_t offset = 0; offset < stride; offset += 8) {
        __m512i v[1 << LOG];
#pragma GCC unroll 16
        for (int i = 0; i < (1 << LOG); ++i) v[i] = load(x + i * stride + offset);
        inverse_layers<1>(v, twiddles, m);
#pragma GCC unroll 8
        for (int i = 0; i < kHalf; ++i) {
            const __m512i sum = add(v[i], v[kHalf + i]);
            const __m512i difference = sub(add(v[i], m.twice_q), v[kHalf + i]);
            v[i] = subtract_once(shoup_product(sum, factor, factor_quotient, m), m.q);
            v[kHalf + i] = subtract_once(shoup_product(difference, w, quotient, m), m.q);
        }
#pragma GCC unroll 16
        for (int i = 0; i < (1 << LOG); ++i) store(x + i * stride + offset, v[i]);
    }
}

// The radix (as its logarithm) of the next pass on a block of 2^log_size words; 0: only the tail is left. The
// pass before the tail has radix 16 if it can. Radix 16 at a stride of 4 KiB or more would put 16 lines into
// one set of a 12-way cache; radix 8 does not.
CIPHERBLAS_INLINE int next_pass(int log_size) {
    const int layers = log_size - kTailLog;
    if (layers <= 4) return layers;
    const int before_last = layers - 4;
    return before_last % 3 == 0 ? 3 : before_last % 3 == 1 && before_last > 1 ? 2 : before_last % 3;
}

template <int LOG>
void forward_passes(Word* const* x, std::size_t rows, int log_size, std::size_t node, const Twiddles& t,
                    const Lanes& m) {
    for (std::size_t row = 0; row < rows; ++row) forward_pass<LOG>(x[row], log_size, node, t, m);
}

// The block `node` of one or two rows: side by side, so that what one reads of the table is in the cache for the other.
template <typename Finish>
void forward(Word* const* x, std::size_t rows, int log_size, std::size_t node, const Twiddles& t,
             const Lanes& m, const Finish& finish) {
    const int log_radix = next_pass(log_size);
    switch (log_radix) {
        case 1:
            forward_passes<1>(x, rows, log_size, node, t, m);
            break;
        case 2:
            forward_passes<2>(x, rows, log_size, node, t, m);
            break;
        case 3:
            forward_passes<3>(x, rows, log_size, node, t, m);
            break;
        default:
            forward_passes<4>(x, rows, log_size, node, t, m);
            break;
    }
    const int log_child = log_size - log_radix;
    if (log_child == kTailLog) {
        for (std::size_t row = 0; row < rows; ++row) {
            forward_tail(row, x[row], node << log_radix, std::size_t{1} << log_radix, t, m, finish);
        }
        return;
    }
    for (std::size_t child = 0; child < std::size_t{1} << log_radix; ++child) {
        Word* const parts[2] = {x[0] + (child << log_child), x[rows - 1] + (child << log_child)};
        forward(parts, rows, log_child, (node << log_radix) + child, t, m, finish);
    }
}

// The inverse transform of the block `node` at `from`, written to x.
void inverse(Word* x, const Word* from, int log_size, std::size_t node, const LastFactors& last,
             const Twiddles& t, const Lanes& m) {
    const int log_radix = next_pass(log_size);
    const int log_child = log_size - log_radix;
    if (log_child == kTailLog) {
        inverse_tail(x, from, node << log_radix, std::size_t{1} << log_radix, t, m);
    } else {
        for (std::size_t child = 0; child < std::size_t{1} << log_radix; ++child) {
            const std::size_t offset = child << log_child;
            inverse(x + offset, from + offset, log_child, (node << log_radix) + child, last, t, m);
        }
    }
    switch (log_radix) {
        case 1:
            return node == 1 ? inverse_pass_last<1>(x, log_size, last, t, m)
                             : inverse_pass<1>(x, log_size, node, t, m);
        case 2:
            return node == 1 ? inverse_pass_last<2>(x, log_size, last, t, m)
                             : inverse_pass<2>(x, log_size, node, t, m);
        case 3:
            return node == 1 ? inverse_pass_last<3>(x, log_size, last, t, m)
                             : inverse_pass<3>(x, log_size, node, t, m);
        default:
            return node == 1 ? inverse_pass_last<4>(x, log_size, last, t, m)
                             : inverse_pass<4>(x, log_size, node, t, m);
    }
}

}  // namespace

// Below 2 * 64 words there is no pass to fold N^-1 into: such toy degrees take the scalar path.
void ntt(Word* x, const NttTable& table) { ntt_many(&x, 1, table); }

void ntt_many(Word* const* x, std::size_t count, const NttTable& table) {
    if (table.log_n <= kTailLog) return scalar_table()->ntt_many(x, count, table);
    for (std::size_t k = 0; k < count; k += 2) {
        const std::size_t rows = count - k < 2 ? 1 : 2;
        forward(x + k, rows, table.log_n, 1, Twiddles(table.roots), Lanes(table.modulus), Keep());
    }
}

void ntt_sub_mul_scalar(Word* const* r, const Word* const* a, Word* const* x, std::size_t count, Word c,
                        const NttTable& table) {
    if (table.log_n <= kTailLog) return scalar_table()->ntt_sub_mul_scalar(r, a, x, count, c, table);
    const Modulus& modulus = table.modulus;
    for (std::size_t k = 0; k < count; k += 2) {
        const std::size_t rows = count - k < 2 ? 1 : 2;
        const std::size_t last = k + rows - 1;
        const SubtractFrom finish{{x[k], x[last]},
                                  {r[k], r[last]},
                                  {a[k], a[last]},
                                  broadcast(c % modulus.q),
                                  broadcast(shoup_quotient(c % modulus.q, modulus))};
        forward(x + k, rows, table.log_n, 1, Twiddles(table.roots), Lanes(modulus), finish);
    }
}

void intt(Word* x, const NttTable& table) {
    if (table.log_n <= kTailLog) return scalar_table()->intt(x, table);
    inverse(x, x, table.log_n, 1, LastFactors(table), Twiddles(table.inverse_roots), Lanes(table.modulus));
}

void intt_scaled(Word* r, const Word* a, Word factor, const NttTable& table) {
    if (table.log_n <= kTailLog) return scalar_table()->intt_scaled(r, a, factor, table);
    const LastFactors last(table, factor);
    inverse(r, a, table.log_n, 1, last, Twiddles(table.inverse_roots), Lanes(table.modulus));
}

}  // namespace cipherblas::avx512ifma
