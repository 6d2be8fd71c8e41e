// The transforms of the encoder, for every instruction set.
//
// Layers are grouped into passes of radix 2, 4 and 8, which recur depth first: a block runs all its layers while it is in the
// innermost cache that holds it. The layers inside a vector, and the reordering, are done on tiles of L x L numbers, L being
// the lanes of a vector. With i = a S/L + m L + b, for a, b < L,
//     reversed(i) = reversed(b) S/L + reversed(m) L + reversed(a):
// the rows a of the tile m, read in reversed order and transposed, are rows of the tile that they go to, and the layers of
// length L and less combine whole rows.
#pragma once
#include <bit>
#include <cmath>
#include <cstring>

#include "ckks/kernels.h"

namespace cipherblas {
namespace {  // internal linkage: every instruction set has its own copy
namespace embedding {

#define CIPHERBLAS_EMBEDDING_INLINE [[gnu::always_inline]] inline

// (x, y) <- (x + w y, x - w y)
template <typename V>
CIPHERBLAS_EMBEDDING_INLINE void forward_butterfly(V& xr, V& xi, V& yr, V& yi, V wr, V wi) {
    const V tr = yr * wr - yi * wi;
    const V ti = yr * wi + yi * wr;
    yr = xr - tr;
    yi = xi - ti;
    xr = xr + tr;
    xi = xi + ti;
}

// (x, y) <- (x + y, (x - y) / w)
template <typename V>
CIPHERBLAS_EMBEDDING_INLINE void inverse_butterfly(V& xr, V& xi, V& yr, V& yi, V wr, V wi) {
    const V tr = xr - yr;
    const V ti = xi - yi;
    xr = xr + yr;
    xi = xi + yi;
    yr = tr * wr + ti * wi;
    yi = ti * wr - tr * wi;
}

// All butterflies of one layer on 2^LOG rows: twiddle(number) is that of the first row of the pair.
template <int LOG, bool INVERSE, typename V, typename Twiddle>
CIPHERBLAS_EMBEDDING_INLINE void run_layer(int layer, V* re, V* im, const Twiddle& twiddle) {
    const int half = (1 << LOG) >> (layer + 1);
#pragma GCC unroll 8
    for (int i = 0; i < (1 << LOG); ++i) {
        if ((i & half) != 0) continue;
        V wr, wi;
        twiddle(half, i & (half - 1), wr, wi);
        if (INVERSE) {
            inverse_butterfly(re[i], im[i], re[i + half], im[i + half], wr, wi);
        } else {
            forward_butterfly(re[i], im[i], re[i + half], im[i + half], wr, wi);
        }
    }
}

template <int LOG, bool INVERSE, typename V, typename Twiddle>
CIPHERBLAS_EMBEDDING_INLINE void run_layers(V* re, V* im, const Twiddle& twiddle) {
#pragma GCC unroll 3
    for (int k = 0; k < LOG; ++k) run_layer<LOG, INVERSE>(INVERSE ? k : LOG - 1 - k, re, im, twiddle);
}

// LOG layers of a block of `length` numbers.
template <typename L, int LOG, bool INVERSE>
void pass(const EmbeddingTable& table, double* re, double* im, std::size_t length) {
    using V = typename L::Vector;
    const std::size_t stride = length >> LOG;
    for (std::size_t j = 0; j < stride; j += L::kLanes) {
        V r[1 << LOG], s[1 << LOG];
#pragma GCC unroll 8
        for (std::size_t i = 0; i < (1u << LOG); ++i) {
            r[i] = L::load(re + i * stride + j);
            s[i] = L::load(im + i * stride + j);
        }
        run_layers<LOG, INVERSE>(r, s, [&](int half, int number, V& wr, V& wi) {
            const std::size_t place =
                (static_cast<std::size_t>(half) + static_cast<std::size_t>(number)) * stride + j;
            wr = L::load(table.cosine + place);
            wi = L::load(table.sine + place);
        });
#pragma GCC unroll 8
        for (std::size_t i = 0; i < (1u << LOG); ++i) {
            L::store(re + i * stride + j, r[i]);
            L::store(im + i * stride + j, s[i]);
        }
    }
}

// The radix, as its logarithm, of the widest pass of a block with so many layers above its tiles.
template <typename L>
CIPHERBLAS_EMBEDDING_INLINE int next_pass(int layers) {
    if (L::kMostLayers == 1) return 1;
    return layers % 3 == 0 ? 3 : layers % 3 == 1 && layers > 1 ? 2 : layers % 3;
}

template <typename L, bool INVERSE>
void run_pass(int log_radix, const EmbeddingTable& table, double* re, double* im, std::size_t length) {
    if (log_radix == 1 || L::kMostLayers == 1) return pass<L, 1, INVERSE>(table, re, im, length);
    if (log_radix == 2) return pass<L, 2, INVERSE>(table, re, im, length);
    pass<L, 3, INVERSE>(table, re, im, length);
}

// The layers above the tiles of a block: of the inverse transform the widest one comes first.
template <typename L, bool INVERSE>
void run_block(const EmbeddingTable& table, double* re, double* im, std::size_t length) {
    if (length == L::kLanes) return;
    const int log_radix = next_pass<L>(std::countr_zero(length) - L::kLogLanes);
    if (INVERSE) run_pass<L, INVERSE>(log_radix, table, re, im, length);
    const std::size_t child = length >> log_radix;
    for (std::size_t start = 0; child > L::kLanes && start < length; start += child) {
        run_block<L, INVERSE>(table, re + start, im + start, child);
    }
    if (!INVERSE) run_pass<L, INVERSE>(log_radix, table, re, im, length);
}

template <int LOG>
CIPHERBLAS_EMBEDDING_INLINE std::size_t reversed(std::size_t x) {
    std::size_t result = 0;
    for (int bit = 0; bit < LOG; ++bit) result |= (x >> bit & 1) << (LOG - 1 - bit);
    return result;
}

// The layers of a tile: row b holds numbers b of L blocks.
template <typename L, bool INVERSE>
CIPHERBLAS_EMBEDDING_INLINE void run_tile(const EmbeddingTable& table, typename L::Vector* re,
                                          typename L::Vector* im) {
    using V = typename L::Vector;
    run_layers<L::kLogLanes, INVERSE>(re, im, [&](int half, int number, V& wr, V& wi) {
        wr = L::broadcast(table.cosine[half + number]);
        wi = L::broadcast(table.sine[half + number]);
    });
}

// write(place, re, im) for the rows of the outcome of an inverse transform.
template <typename L, typename Write>
CIPHERBLAS_EMBEDDING_INLINE void write_tiles(const EmbeddingTable& table, const double* re, const double* im,
                                             const Write& write) {
    using V = typename L::Vector;
    constexpr std::size_t kLanes = L::kLanes;
    const std::size_t rows = table.slots / kLanes;
    for (std::size_t m = 0; m < rows; m += kLanes) {
        V r[kLanes], s[kLanes];
#pragma GCC unroll 8
        for (std::size_t k = 0; k < kLanes; ++k) {
            const std::size_t from = reversed<L::kLogLanes>(k) * rows + m;
            r[k] = L::load(re + from);
            s[k] = L::load(im + from);
        }
        L::transpose(r);
        L::transpose(s);
        run_tile<L, true>(table, r, s);
        const std::size_t place = table.bit_reversal[m];
#pragma GCC unroll 8
        for (std::size_t b = 0; b < kLanes; ++b) write(reversed<L::kLogLanes>(b) * rows + place, r[b], s[b]);
    }
}

// Scaled numbers, which lie where their integers go.
CIPHERBLAS_EMBEDDING_INLINE bool round_all_by_chance(std::int64_t* coefficients, std::size_t count,
                                                     std::uint64_t dither) {
    bool fits = true;
    for (std::size_t i = 0; i < count; ++i) {
        // As round_by_chance in ring/samplers.h: its functions may not be shared with other instruction sets.
        std::uint64_t word = dither + static_cast<std::uint64_t>(i) * kDitherStep;
        word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
        word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
        word = word ^ (word >> 31);
        double x;
        std::memcpy(&x, coefficients + i, sizeof x);
        x = std::floor(x + static_cast<double>(static_cast<std::int64_t>(word >> 11)) * 0x1p-53);
        const bool fits_here = std::fabs(x) < 0x1p62;  // false for NaN
        coefficients[i] = static_cast<std::int64_t>(fits_here ? x : 0.0);
        fits = fits && fits_here;
    }
    return fits;
}

template <typename L>
bool encode(const EmbeddingTable& table, double* re, double* im, double factor, std::uint64_t dither,
            std::int64_t* coefficients) {
    using V = typename L::Vector;
    const std::size_t slots = table.slots;
    run_block<L, true>(table, re, im, slots);
    const V scale = L::broadcast(factor);
    if (dither == 0) {
        typename L::Fits fits;
        write_tiles<L>(table, re, im, [&](std::size_t place, V r, V s) {
            L::store_rounded(coefficients + place, r * scale, fits);
            L::store_rounded(coefficients + slots + place, s * scale, fits);
        });
        return fits.all();
    }
    write_tiles<L>(table, re, im, [&](std::size_t place, V r, V s) {
        L::store(coefficients + place, r * scale);
        L::store(coefficients + slots + place, s * scale);
    });
    return round_all_by_chance(coefficients, 2 * slots, dither);
}

template <typename L>
void decode(const EmbeddingTable& table, const double* coefficients, double* re, double* im,
            std::complex<double>* values) {
    using V = typename L::Vector;
    constexpr std::size_t kLanes = L::kLanes;
    const std::size_t slots = table.slots, rows = slots / kLanes;
    for (std::size_t m = 0; m < rows; m += kLanes) {
        V r[kLanes], s[kLanes];
        const std::size_t place = table.bit_reversal[m];
#pragma GCC unroll 8
        for (std::size_t b = 0; b < kLanes; ++b) {
            const double* const from = coefficients + reversed<L::kLogLanes>(b) * rows + place;
            r[b] = L::load(from);
            s[b] = L::load(from + slots);
        }
        run_tile<L, false>(table, r, s);
        L::transpose(r);
        L::transpose(s);
#pragma GCC unroll 8
        for (std::size_t k = 0; k < kLanes; ++k) {
            const std::size_t to = reversed<L::kLogLanes>(k) * rows + m;
            L::store(re + to, r[k]);
            L::store(im + to, s[k]);
        }
    }
    run_block<L, false>(table, re, im, slots);
    auto* const out = reinterpret_cast<double*>(values);
    for (std::size_t j = 0; j < slots; ++j) {
        out[2 * j] = re[j];
        out[2 * j + 1] = im[j];
    }
}

// x rounded to an integer, ties to even, as nearbyint does, which is a call where there is no instruction for it.
CIPHERBLAS_EMBEDDING_INLINE double nearest_integer(double x) {
    constexpr double kAllIntegers = 0x1p52;  // numbers from here on
    const double shift = std::copysign(kAllIntegers, x);
    return std::fabs(x) < kAllIntegers ? (x + shift) - shift : x;
}

// One number at a time.
struct Doubles1 {
    using Vector = double;
    static constexpr std::size_t kLanes = 1;
    static constexpr int kLogLanes = 0;
    static constexpr int kMostLayers = 1;  // what a compiler makes vectors of

    struct Fits {
        bool each = true;
        bool all() const { return each; }
    };

    CIPHERBLAS_EMBEDDING_INLINE static double load(const double* p) { return *p; }
    CIPHERBLAS_EMBEDDING_INLINE static void store(double* p, double x) { *p = x; }
    CIPHERBLAS_EMBEDDING_INLINE static void store(std::int64_t* p, double x) { std::memcpy(p, &x, sizeof x); }
    CIPHERBLAS_EMBEDDING_INLINE static double broadcast(double x) { return x; }
    CIPHERBLAS_EMBEDDING_INLINE static void transpose(double*) {}
    CIPHERBLAS_EMBEDDING_INLINE static void store_rounded(std::int64_t* p, double x, Fits& fits) {
        const double value = nearest_integer(x);
        const bool fits_here = std::fabs(value) < 0x1p62;  // false for NaN
        *p = static_cast<std::int64_t>(fits_here ? value : 0.0);
        fits.each = fits.each && fits_here;
    }
};

// Vectors of L where a tile fits, else numbers: the same bits.
template <typename L>
bool encode_any(const EmbeddingTable& table, double* re, double* im, double factor, std::uint64_t dither,
                std::int64_t* coefficients) {
    const bool tiles = table.slots >= L::kLanes * L::kLanes;
    return (tiles ? encode<L> : encode<Doubles1>)(table, re, im, factor, dither, coefficients);
}

template <typename L>
void decode_any(const EmbeddingTable& table, const double* coefficients, double* re, double* im,
                std::complex<double>* values) {
    const bool tiles = table.slots >= L::kLanes * L::kLanes;
    (tiles ? decode<L> : decode<Doubles1>)(table, coefficients, re, im, values);
}

}  // namespace embedding
}  // namespace
}  // namespace cipherblas
