// Negacyclic NTT with AVX-512 IFMA.
//
// The layers are grouped into passes of radix 2^LOG that keep 2^LOG vectors in registers; the last six layers
// work on 64 contiguous words held in eight registers. Passes recur depth first, so that a sub-transform runs
// all its remaining layers while it is in the innermost cache that holds it.
#include "ring/kernels/avx512ifma_ntt.h"

#include <algorithm>
#include <bit>

#include "arith/cpu.h"
#include "ring/kernels/avx512ifma_butterflies.h"
#include "ring/kernels/avx512ifma_convert.h"
#include "ring/kernels/tables.h"

namespace cipherblas::avx512ifma {

namespace {

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

// The tail waits for memory more than it computes where tables and operands are not in the caches: it asks for what it
// will read so many blocks of 64 words later, about the time of a block of the other row. From this node on the limb has
// 2^15 words or more; smaller ones stay in the caches.
constexpr std::size_t kAheadBlocks = 8;
constexpr std::size_t kAheadNode = 512;

template <int LINES, _mm_hint HINT = _MM_HINT_T0>
CIPHERBLAS_INLINE void fetch_lines(const Word* p) {
#pragma GCC unroll 16
    for (int i = 0; i < LINES; ++i) _mm_prefetch(reinterpret_cast<const char*>(p + 8 * i), HINT);
}

// What is read or written soon is fetched in step with the tail: a share of the streams with every row.
struct Fetch {
    const Word* const* streams[2];
    std::size_t count[2];

    // The shares of rows k and k + 1 of `rows`. Intel's prefetchers follow the streams themselves, and hints only take
    // their place: 3 percent of a product at N = 2^16.
    Fetch(const Upcoming& upcoming, std::size_t k, std::size_t rows) {
        const std::size_t all = cpu_is_intel() ? 0 : upcoming.count;
        for (std::size_t row = 0; row < 2; ++row) {
            const std::size_t first = all * (k + row) / rows;
            streams[row] = upcoming.streams + first;
            count[row] = all * (k + row + 1) / rows - first;
        }
    }
    CIPHERBLAS_INLINE void operator()(std::size_t row, std::ptrdiff_t offset) const {
        for (std::size_t s = 0; s < count[row]; ++s) fetch_lines<16, _MM_HINT_T1>(streams[row][s] + offset);
    }
};

// What the forward transform does with its values: it keeps them, reduced or as they are,
template <bool LAZY>
struct Keep {
    static constexpr bool fetches_tables = true;
    const Word* x[2];
    Fetch upcoming;

    CIPHERBLAS_INLINE void fetch(std::size_t row, const Word* at) const { upcoming(row, at - x[row]); }
    CIPHERBLAS_INLINE void fetch_upcoming(std::size_t row, const Word* at) const { fetch(row, at); }
    template <int LINES>
    CIPHERBLAS_INLINE void fetch_lines_of(std::size_t, const Word*) const {}

    // The words from `at` on, of one row.
    struct Block {
        Word* at;

        template <int SPAN>
        CIPHERBLAS_INLINE void finish(std::size_t i, __m512i value, const Field<SPAN>& f) const {
            store(at + i, LAZY ? value : f.canonical(value));
        }
    };
    CIPHERBLAS_INLINE Block block(std::size_t, Word* at) const { return {at}; }
};

// or it keeps them and their mirror image in the other half of the limb,
struct KeepMirrored {
    static constexpr bool fetches_tables = true;
    Word* x;
    Word* end;  // of the limb

    CIPHERBLAS_INLINE void fetch(std::size_t, const Word*) const {}
    CIPHERBLAS_INLINE void fetch_upcoming(std::size_t, const Word*) const {}
    template <int LINES>
    CIPHERBLAS_INLINE void fetch_lines_of(std::size_t, const Word*) const {}

    struct Block {
        Word* at;
        Word* mirror;

        template <int SPAN>
        CIPHERBLAS_INLINE void finish(std::size_t i, __m512i value, const Field<SPAN>& f) const {
            const __m512i word = f.canonical(value);
            store(at + i, word);
            store(mirror - i, permute_lanes(word, reversed_lanes()));
        }
    };
    CIPHERBLAS_INLINE Block block(std::size_t, Word* at) const { return {at, end - 8 - (at - x)}; }
};

// or they are added to a, times a constant: row k is at x[k], and the result at the same place of r[k].
//
// Only some lines at a time can be on their way between a core and memory, stores past the caches among them. Hints for a
// are therefore spread over the transform: of every sixteen lines the first ones are asked for by the passes before the last,
// most by the last pass, a block ahead, and the rest by the tail. That is 4 percent of a rescale at N = 2^16.
constexpr int kOuterLines = 4, kInnerLines = 8, kTailLines = 4;

template <bool BYPASS>
struct AddTo {
    const Word* x[2];
    Word* r[2];
    const Word* a[2];
    __m512i factor, quotient;
    Fetch upcoming;
    // Beside two streams of operands, hints for the tables cost more than they save on Intel: 3 percent of a rescale.
    bool fetches_tables = !cpu_is_intel();

    CIPHERBLAS_INLINE void fetch(std::size_t row, const Word* at) const {
        upcoming(row, at - x[row]);
        const std::ptrdiff_t offset = at - x[row] + static_cast<std::ptrdiff_t>(64 * kAheadBlocks);
        fetch_lines<kTailLines, _MM_HINT_T1>(a[row] + offset + 64 * kAheadBlocks + 8 * (16 - kTailLines));
        if (!BYPASS) fetch_lines<16>(r[row] + offset);
    }
    CIPHERBLAS_INLINE void fetch_upcoming(std::size_t, const Word*) const {}
    template <int LINES>
    CIPHERBLAS_INLINE void fetch_lines_of(std::size_t row, const Word* at) const {
        fetch_lines<LINES, _MM_HINT_T1>(a[row] + (at - x[row]));
    }

    struct Block {
        Word* r;
        const Word* a;
        __m512i factor, quotient;

        template <int SPAN>
        CIPHERBLAS_INLINE void finish(std::size_t i, __m512i value, const Field<SPAN>& f) const {
            const __m512i sum = f.sum(load(a + i), value);
            const __m512i result = subtract_once(shoup_product(sum, factor, quotient, f), f.q);
            BYPASS ? store_past_caches(r + i, result) : store(r + i, result);
        }
    };
    CIPHERBLAS_INLINE Block block(std::size_t row, const Word* at) const {
        const std::ptrdiff_t offset = at - x[row];
        return {r[row] + offset, a[row] + offset, factor, quotient};
    }
};

// All layers below the blocks node to node + blocks - 1 of 64 words each. Two blocks go side by side, 16 registers wide:
// the butterflies of one alone would wait for each other. SHORT: all blocks begin with the same 64 residues.
template <bool SHORT = false, int SPAN, typename Finish>
void forward_tail(std::size_t row, Word* x, std::size_t node, std::size_t blocks, const Twiddles t,
                  const Field<SPAN> f, const Finish finish, const Word* shared = nullptr) {
    const bool ahead = node >= kAheadNode;
    const Shuffle shuffle = perfect_shuffle();
    // The table of a few blocks that many polynomials share is in the caches: roots are read, too.
    const auto twiddled = [&](__m512i& even, __m512i& odd, const auto& at) {
        const __m512i quotient = at(t.quotient);
        if (!SHORT) return forward_butterfly(even, odd, quotient, f);
        forward_butterfly<kBetweenLayers<SPAN>>(even, odd, at(t.plain), quotient, f);
    };
    for (std::size_t end = node + blocks; node < end; node += 2, x += 128) {
        if (ahead && row == 0 && finish.fetches_tables) {
            fetch_lines<8>(t.quotient + 32 * (node + kAheadBlocks));
            fetch_lines<4>(t.quotient + 16 * (node + kAheadBlocks));
            fetch_lines<2>(t.quotient + 8 * (node + kAheadBlocks));
        }
        ahead ? finish.fetch(row, x) : finish.fetch_upcoming(row, x);
        __m512i v[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) v[i] = load(SHORT ? shared + 8 * (i % 8) : x + 8 * i);
        constexpr Inputs kInputs = SHORT                ? Inputs::kResidues
                                   : SPAN != kLooseSpan ? Inputs::kAny
                                                        : Inputs::kSpread;
        forward_layers<1, kInputs>(&v, PassTwiddles<3, 2>(node, t), f);
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            shuffle(v[i], v[i + 1]);
            twiddled(v[i], v[i + 1], [&](const Word* p) { return repeat_two(p + 8 * node + i); });
        }
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            shuffle(v[i], v[i + 1]);
            twiddled(v[i], v[i + 1], [&](const Word* p) { return repeat_four(p + 16 * node + 2 * i); });
        }
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            shuffle(v[i], v[i + 1]);
            twiddled(v[i], v[i + 1], [&](const Word* p) { return load(p + 32 * node + 4 * i); });
            shuffle(v[i], v[i + 1]);
        }
        const auto block = finish.block(row, x);
#pragma GCC unroll 16
        for (std::size_t i = 0; i < 16; ++i) block.finish(8 * i, v[i], f);
    }
}

template <int SPAN>
void inverse_tail(Word* x, const Word* from, std::size_t node, std::size_t blocks, const Twiddles t,
                  const Field<SPAN> f) {
    const bool ahead = node >= kAheadNode && !cpu_is_intel();
    const Shuffle shuffle = inverse_perfect_shuffle();
    for (std::size_t end = node + blocks; node < end; node += 2, x += 128, from += 128) {
        if (ahead) {
            fetch_lines<8>(t.quotient + 32 * (node + kAheadBlocks));
            fetch_lines<4>(t.quotient + 16 * (node + kAheadBlocks));
            fetch_lines<2>(t.quotient + 8 * (node + kAheadBlocks));
            fetch_lines<16>(from + 64 * kAheadBlocks);
        }
        __m512i v[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) v[i] = load(from + 8 * i);
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            shuffle(v[i], v[i + 1]);
            inverse_butterfly(v[i], v[i + 1], load(t.quotient + 32 * node + 4 * i), f.q, f);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            shuffle(v[i], v[i + 1]);
            inverse_butterfly(v[i], v[i + 1], repeat_four(t.quotient + 16 * node + 2 * i), f.twice_q, f);
            if (Field<SPAN>::kSumLayers == 1) v[i] = f.reduce(v[i]);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            shuffle(v[i], v[i + 1]);
            inverse_butterfly(v[i], v[i + 1], repeat_two(t.quotient + 8 * node + i), sum_bound(1, f), f);
            v[i] = f.reduce(v[i]);
            shuffle(v[i], v[i + 1]);
        }
        inverse_layers<1, 0>(&v, PassTwiddles<3, 2>(node, t), f);
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) store(x + 8 * i, v[i]);
    }
}

// ---- passes

// One pass over the block `node` of 2^log_size words, which are read elsewhere or in place.
template <int LOG, Inputs INPUTS, int SPAN, typename Finish>
void forward_pass(std::size_t row, Word* x, const Word* from, int log_size, std::size_t node,
                  const Twiddles& t, const Field<SPAN> f, const Finish finish) {
    constexpr int kGroups = pass_groups(LOG), kVectors = 1 << LOG;
    const PassTwiddles<LOG, 1> twiddles(node, t);
    const bool ahead = node << (log_size - kTailLog) >= kAheadNode;
    with_stride<LOG>(log_size, [&](const auto stride) {
        for (std::size_t offset = 0; offset < stride; offset += 8 * kGroups) {
            Word* const to = x + offset;
            const Word* const at = from + offset;
            if (ahead) {
                const Word* const block = x + (offset << LOG);
                if (stride > std::size_t{1} << kTailLog) {
                    finish.template fetch_lines_of<kOuterLines>(row, block);
                } else {
                    finish.template fetch_lines_of<kInnerLines>(row,
                                                                block + (stride << LOG) + 8 * kOuterLines);
                }
            }
            __m512i v[kGroups][kVectors];
            for_each_vector<kGroups, kVectors>(
                [&](int g, int i) { v[g][i] = load(at + i * stride + 8 * g); });
            forward_layers<kGroups, INPUTS>(v, twiddles, f);
            for_each_vector<kGroups, kVectors>(
                [&](int g, int i) { store(to + i * stride + 8 * g, v[g][i]); });
        }
    });
}

template <int LOG, int SPAN>
void inverse_pass(Word* x, int log_size, std::size_t node, const Twiddles& t, const Field<SPAN> f) {
    constexpr int kGroups = pass_groups(LOG), kVectors = 1 << LOG;
    const PassTwiddles<LOG, 1> twiddles(node, t);
    with_stride<LOG>(log_size, [&](const auto stride) {
        for (std::size_t offset = 0; offset < stride; offset += 8 * kGroups) {
            Word* const at = x + offset;
            __m512i v[kGroups][kVectors];
            for_each_vector<kGroups, kVectors>(
                [&](int g, int i) { v[g][i] = load(at + i * stride + 8 * g); });
            inverse_layers<kGroups, 0>(v, twiddles, f);
            for_each_vector<kGroups, kVectors>(
                [&](int g, int i) { store(at + i * stride + 8 * g, v[g][i]); });
        }
    });
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

// Where the last pass of an inverse transform puts its words, and what it adds to them.
struct Result {
    Word* r;
    PieceLayout layout;
    Word shift;
    bool bypass;

    // The first part's word of this number.
    CIPHERBLAS_INLINE Word* at(std::size_t word) const {
        const std::size_t within = word & (layout.length - 1);
        return r + (word >> std::countr_zero(layout.length)) * layout.stride + within;
    }
};

enum class End { kStore, kBypass, kShift };

// The first pass of the whole inverse transform's end: its last layer, stride N/2, also multiplies by N^-1.
template <int LOG, End END, int SPAN>
void write_inverse(const Result& result, const Word* x, int log_n, const LastFactors& last, const Twiddles& t,
                   const Field<SPAN> f) {
    constexpr int kGroups = pass_groups(LOG), kHalf = 1 << (LOG - 1);
    const PassTwiddles<LOG, 1> twiddles(1, t);
    const __m512i factor = broadcast(last.sum);
    const __m512i factor_quotient = broadcast(last.sum_quotient);
    const __m512i w = broadcast(last.difference);
    const __m512i quotient = broadcast(last.difference_quotient);
    const __m512i bound = sum_bound(LOG - 1, f);
    const __m512i shift = broadcast(result.shift);
    with_first_stride<LOG>(log_n, [&](const auto stride) {
        for (std::size_t offset = 0; offset < stride; offset += 8 * kGroups) {
            const Word* const at = x + offset;
            __m512i v[kGroups][2 * kHalf];
            for_each_vector<kGroups, 2 * kHalf>(
                [&](int g, int i) { v[g][i] = load(at + i * stride + 8 * g); });
            inverse_layers<kGroups, 1>(v, twiddles, f);
            for_each_vector<kGroups, kHalf>([&](int g, int i) {
                const __m512i sum = add(v[g][i], v[g][kHalf + i]);
                const __m512i difference = sub(add(v[g][i], bound), v[g][kHalf + i]);
                v[g][i] = subtract_once(shoup_product(sum, factor, factor_quotient, f), f.q);
                v[g][kHalf + i] = subtract_once(shoup_product(difference, w, quotient, f), f.q);
            });
            Word* to[kGroups];
            for (int g = 0; g < kGroups; ++g) to[g] = result.at(offset + 8 * static_cast<std::size_t>(g));
            for_each_vector<kGroups, 2 * kHalf>([&](int g, int i) {
                Word* const at_part = to[g] + i * result.layout.length;
                if (END == End::kShift) v[g][i] = subtract_once(add(v[g][i], shift), f.q);
                END == End::kBypass ? store_past_caches(at_part, v[g][i]) : store(at_part, v[g][i]);
            });
        }
    });
}

template <int LOG, int SPAN, typename Finish>
void forward_passes(Word* const* x, const Word* const* from, std::size_t rows, int log_size, std::size_t node,
                    bool reduce, const Twiddles& t, const Field<SPAN>& f, const Finish& finish) {
    for (std::size_t row = 0; row < rows; ++row) {
        if (reduce && SPAN != kTightSpan) {
            forward_pass<LOG, Inputs::kAny>(row, x[row], from[row], log_size, node, t, f, finish);
        } else {
            forward_pass<LOG, Inputs::kSpread>(row, x[row], from[row], log_size, node, t, f, finish);
        }
    }
}

// The block `node` of one or two rows: side by side, so that what one reads of the table is in the cache for the other.
// from: where the first pass reads; may be x. room: how many layers the next reduction can wait.
template <int SPAN, typename Finish>
void forward(Word* const* x, const Word* const* from, std::size_t rows, int log_size, std::size_t node,
             int room, const Twiddles& t, const Field<SPAN>& f, const Finish& finish) {
    const int log_radix = next_pass(log_size);
    const bool reduce = room < log_radix;
    switch (log_radix) {
        case 1:
            forward_passes<1>(x, from, rows, log_size, node, reduce, t, f, finish);
            break;
        case 2:
            forward_passes<2>(x, from, rows, log_size, node, reduce, t, f, finish);
            break;
        case 3:
            forward_passes<3>(x, from, rows, log_size, node, reduce, t, f, finish);
            break;
        default:
            forward_passes<4>(x, from, rows, log_size, node, reduce, t, f, finish);
            break;
    }
    const int left = (reduce ? SPAN : room) - log_radix;
    const int log_child = log_size - log_radix;
    if (log_child == kTailLog) {
        for (std::size_t row = 0; row < rows; ++row) {
            forward_tail(row, x[row], node << log_radix, std::size_t{1} << log_radix, t, f, finish);
        }
        return;
    }
    for (std::size_t child = 0; child < std::size_t{1} << log_radix; ++child) {
        Word* const parts[2] = {x[0] + (child << log_child), x[rows - 1] + (child << log_child)};
        forward(parts, parts, rows, log_child, (node << log_radix) + child, left, t, f, finish);
    }
}

template <int LOG, int SPAN>
void inverse_pass_last(const Result& result, const Word* x, int log_n, const LastFactors& last,
                       const Twiddles& t, const Field<SPAN>& f) {
    if (result.shift != 0) return write_inverse<LOG, End::kShift>(result, x, log_n, last, t, f);
    if (!result.bypass) return write_inverse<LOG, End::kStore>(result, x, log_n, last, t, f);
    write_inverse<LOG, End::kBypass>(result, x, log_n, last, t, f);
    _mm_sfence();
}

// The inverse transform of the block `node` at `from`, written to x, or to the result if it is the whole.
template <int SPAN>
void inverse(const Result& result, Word* x, const Word* from, int log_size, std::size_t node,
             const LastFactors& last, const Twiddles& t, const Field<SPAN>& f) {
    const int log_radix = next_pass(log_size);
    const int log_child = log_size - log_radix;
    if (log_child == kTailLog) {
        inverse_tail(x, from, node << log_radix, std::size_t{1} << log_radix, t, f);
    } else {
        for (std::size_t child = 0; child < std::size_t{1} << log_radix; ++child) {
            const std::size_t offset = child << log_child;
            inverse(result, x + offset, from + offset, log_child, (node << log_radix) + child, last, t, f);
        }
    }
    switch (log_radix) {
        case 1:
            return node == 1 ? inverse_pass_last<1>(result, x, log_size, last, t, f)
                             : inverse_pass<1>(x, log_size, node, t, f);
        case 2:
            return node == 1 ? inverse_pass_last<2>(result, x, log_size, last, t, f)
                             : inverse_pass<2>(x, log_size, node, t, f);
        case 3:
            return node == 1 ? inverse_pass_last<3>(result, x, log_size, last, t, f)
                             : inverse_pass<3>(x, log_size, node, t, f);
        default:
            return node == 1 ? inverse_pass_last<4>(result, x, log_size, last, t, f)
                             : inverse_pass<4>(x, log_size, node, t, f);
    }
}

}  // namespace

// One part of a limb, as base_convert_ntt left it: its block in the tree of all blocks.
struct Part {
    int layers;  // those that are done
    int log_size;
    std::size_t node;

    Part(int part, int log_n)
        : layers(std::countr_zero(static_cast<unsigned>(ntt_parts(log_n)))),
          log_size(log_n - layers),
          node((std::size_t{1} << layers) + static_cast<std::size_t>(part)) {}

    int room(int span) const { return layers == 0 ? 0 : converted_room(span) - layers; }
};

// Below 2 * 64 words there is no pass to fold N^-1 into: such toy degrees take the scalar path.
void ntt(Word* x, const NttTable& table) {
    if (table.log_n <= kTailLog) return scalar_table()->ntt(x, table);
    const Keep<false> finish{{x, x}, Fetch(Upcoming(), 0, 1)};
    with_field(table.modulus, [&](const auto& field) {
        forward(&x, &x, 1, table.log_n, 1, 0, Twiddles(table.roots), field, finish);
    });
}

void ntt_of_shorts(Word* r, const Word* const* a, std::size_t count, std::size_t size, std::size_t first,
                   std::size_t length, const NttTable& table) {
    constexpr std::size_t kBlock = std::size_t{1} << kTailLog;
    const std::size_t block = std::max(size, kBlock),
                      node = ((std::size_t{1} << table.log_n) + first) / block;
    const Keep<true> finish{{r, r}, Fetch(Upcoming(), 0, 1)};
    with_field(table.modulus, [&](const auto& field) {
        const Twiddles twiddles(table.roots);
        alignas(64) Word padded[kBlock] = {};
        for (std::size_t t = 0; t < count; ++t, r += length) {
            if (block == kBlock) {
                if (size < kBlock) std::copy_n(a[t], size, padded);
                const Word* const shared = size < kBlock ? padded : a[t];
                forward_tail<true>(0, r, node, length / kBlock, twiddles, field, finish, shared);
                continue;
            }
            for (std::size_t k = 0; k < length / block; ++k) {  // each begins with the same coefficients
                Word* const part = r + k * block;
                std::copy_n(a[t], size, part);
                forward(&part, &part, 1, std::countr_zero(block), node + k, 0, twiddles, field, finish);
            }
        }
    });
}

bool can_mirror(const NttTable& table) { return table.log_n > kTailLog + 1; }

void ntt_mirrored(Word* x, const NttTable& table) {
    const KeepMirrored finish{x, x + (std::size_t{1} << table.log_n)};
    with_field(table.modulus, [&](const auto& field) {
        forward(&x, &x, 1, table.log_n - 1, 2, 0, Twiddles(table.roots), field, finish);
    });
}

namespace {

template <bool LAZY>
void keep_part(Word* const* r, const Word* const* x, std::size_t count, const Part& block,
               const Upcoming& upcoming, const NttTable& table) {
    with_field(table.modulus, [&]<int SPAN>(const Field<SPAN>& field) {
        for (std::size_t k = 0; k < count; k += 2) {
            const std::size_t rows = count - k < 2 ? 1 : 2;
            const Keep<LAZY> finish{{r[k], r[k + rows - 1]}, Fetch(upcoming, k, count)};
            forward(r + k, x + k, rows, block.log_size, block.node, block.room(SPAN), Twiddles(table.roots),
                    field, finish);
        }
    });
}

template <bool BYPASS>
void add_parts(Word* const* r, const Word* const* a, const Word* const* x, Word* const* work,
               std::size_t count, Word c, const Part& block, const Upcoming& upcoming,
               const NttTable& table) {
    const Modulus& modulus = table.modulus;
    with_field(modulus, [&]<int SPAN>(const Field<SPAN>& field) {
        for (std::size_t k = 0; k < count; k += 2) {
            const std::size_t rows = count - k < 2 ? 1 : 2;
            const std::size_t last = k + rows - 1;
            const AddTo<BYPASS> finish{{work[k], work[last]},
                                       {r[k], r[last]},
                                       {a[k], a[last]},
                                       broadcast(c % modulus.q),
                                       broadcast(shoup_quotient(c % modulus.q, modulus)),
                                       Fetch(upcoming, k, count)};
            forward(work + k, x + k, rows, block.log_size, block.node, block.room(SPAN),
                    Twiddles(table.roots), field, finish);
        }
    });
    if (BYPASS) _mm_sfence();
}

// The inverse transform of a, times what the last factors say.
void inverse_to(const Result& result, Word* scratch, const Word* a, const LastFactors& last,
                const NttTable& table) {
    with_field(table.modulus, [&](const auto& field) {
        inverse(result, scratch, a, table.log_n, 1, last, Twiddles(table.inverse_roots), field);
    });
}

// r = a b 2^-52, ahead of a transform: from memory a loop of its own is faster than the transform's own reading.
void multiply_before(Word* r, const Word* a, const Word* b, const NttTable& table) {
    constexpr std::size_t kAhead = 512;
    const Lanes m(table.modulus);
    const std::size_t n = std::size_t{1} << table.log_n;
    for (std::size_t i = 0; i < n; i += 8) {
        _mm_prefetch(reinterpret_cast<const char*>(a + i + kAhead), _MM_HINT_T1);
        _mm_prefetch(reinterpret_cast<const char*>(b + i + kAhead), _MM_HINT_T1);
        store(r + i, add_once(montgomery_product(load(a + i), load(b + i), m), m.q));
    }
}

PieceLayout natural_layout(int log_n) { return {std::size_t{1} << (log_n - next_pass(log_n)), 0}; }

}  // namespace

void ntt_part(Word* const* r, const Word* const* x, std::size_t count, int part, bool lazy,
              const Upcoming& upcoming, const NttTable& table) {
    if (table.log_n <= kTailLog) return scalar_table()->ntt_part(r, x, count, part, lazy, upcoming, table);
    const Part block(part, table.log_n);
    (lazy ? keep_part<true> : keep_part<false>)(r, x, count, block, upcoming, table);
}

void ntt_part_add_mul_scalar(Word* const* r, const Word* const* a, const Word* const* x, Word* const* work,
                             std::size_t count, Word c, int part, bool bypass, const Upcoming& upcoming,
                             const NttTable& table) {
    if (table.log_n <= kTailLog) {
        return scalar_table()->ntt_part_add_mul_scalar(r, a, x, work, count, c, part, bypass, upcoming,
                                                       table);
    }
    const Part block(part, table.log_n);
    (bypass ? add_parts<true> : add_parts<false>)(r, a, x, work, count, c, block, upcoming, table);
}

void intt(Word* x, const NttTable& table) {
    if (table.log_n <= kTailLog) return scalar_table()->intt(x, table);
    inverse_to({x, natural_layout(table.log_n), 0, false}, x, x, LastFactors(table), table);
}

void intt_scaled(Word* r, const Word* a, const Word* b, Word* scratch, Word factor, Word shift,
                 const PieceLayout& layout, bool bypass, const NttTable& table) {
    if (table.log_n <= kTailLog) {
        return scalar_table()->intt_scaled(r, a, b, scratch, factor, shift, layout, bypass, table);
    }
    const Result result{r, layout.stride == 0 ? natural_layout(table.log_n) : layout, shift, bypass};
    if (b != nullptr) {
        multiply_before(scratch, a, b, table);
        a = scratch;
        factor = mul_mod(factor, table.modulus.r_mod_q, table.modulus);
    }
    inverse_to(result, scratch, a, LastFactors(table, factor), table);
}

}  // namespace cipherblas::avx512ifma
