// AVX-512 IFMA: the register tile of the modular product, and the conversions.
#include "gemm/kernels/conversions.h"
#include "gemm/kernels/tables.h"
#include "ring/kernels/avx512ifma_math.h"

namespace cipherblas::gemm {
namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kVectors = kTileCols / kLanes;

// high * 2^52 + low mod q for high + low / 2^52 < 2^63, by Montgomery three times over:
//   (high, low) -> + q, in (0, 2^63) -> + q, in (0, q + 2^11] -> times 2^156, in (-q, q).
CIPHERBLAS_INLINE __m512i reduce_sum(__m512i low, __m512i high, const Lanes& m, __m512i r3) {
    __m512i x = add(montgomery_signed(add(high, shift_right(low, kWordBits)), low, m), m.q);
    x = add(montgomery_signed(shift_right(x, kWordBits), x, m), m.q);
    return add_once(montgomery_product(x, r3, m), m.q);
}

// Narrow products have no high words.
enum class Sum { kWhole, kNarrow };

template <Sum SUM>
void tile(std::uint64_t* r, const std::uint64_t* a, const std::uint64_t* b, std::size_t k,
          const GemmModulus& modulus) {
    __m512i low[kTileRows][kVectors];
    __m512i high[kTileRows][kVectors];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 3
        for (std::size_t j = 0; j < kVectors; ++j) low[i][j] = high[i][j] = _mm512_setzero_si512();
    }
    for (std::size_t p = 0; p < k; ++p, a += kTileRows, b += kTileCols) {
        const __m512i right[kVectors] = {load(b), load(b + kLanes), load(b + 2 * kLanes)};
#pragma GCC unroll 4
        for (std::size_t i = 0; i < kTileRows; ++i) {
            const __m512i left = broadcast(a[i]);
#pragma GCC unroll 3
            for (std::size_t j = 0; j < kVectors; ++j) {
                low[i][j] = add_low(low[i][j], left, right[j]);
                if (SUM == Sum::kWhole) high[i][j] = add_high(high[i][j], left, right[j]);
            }
        }
    }
    const Lanes m(modulus.m);
    const __m512i r3 = broadcast(modulus.r3_mod_q);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 3
        for (std::size_t j = 0; j < kVectors; ++j) {
            store(r + i * kTileCols + j * kLanes, reduce_sum(low[i][j], high[i][j], m, r3));
        }
    }
}

CIPHERBLAS_INLINE __m512i merged(__m512i c, __m512i x, Merge how, __m512i q) {
    switch (how) {
        case Merge::kSet:
            return x;
        case Merge::kSetNegative:
            return subtract_once(sub(q, x), q);
        case Merge::kAdd:
            return subtract_once(add(c, x), q);
        case Merge::kSubtract:
            break;
    }
    return add_once(sub(c, x), q);
}

void merge(std::uint64_t* c, std::ptrdiff_t row_stride, const std::uint64_t* r, std::size_t rows,
           std::size_t cols, Merge how, const Modulus& m) {
    const __m512i q = broadcast(m.q);
    const bool reads = how == Merge::kAdd || how == Merge::kSubtract;
    for (std::size_t i = 0; i < rows; ++i, c += row_stride, r += kTileCols) {
        for (std::size_t j = 0; j < cols; j += kLanes) {
            const std::size_t left = cols - j;
            const __mmask8 lanes = left >= kLanes ? kAllLanes : static_cast<__mmask8>((1u << left) - 1);
            const __m512i old = reads ? _mm512_maskz_loadu_epi64(lanes, c + j) : q;
            _mm512_mask_storeu_epi64(c + j, lanes, merged(old, load(r + j), how, q));
        }
    }
}

CIPHERBLAS_INLINE __m256i load_four(const std::uint64_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

template <PackStep STEP>
CIPHERBLAS_INLINE void pack_four(std::uint64_t* packed, __m256i x, __m256i q) {
    auto* const to = reinterpret_cast<__m256i*>(packed);
    if (STEP == PackStep::kCopyNegative || STEP == PackStep::kSubtract) x = _mm256_sub_epi64(q, x);
    if (STEP == PackStep::kAdd || STEP == PackStep::kSubtract) x = _mm256_add_epi64(_mm256_load_si256(to), x);
    _mm256_store_si256(to, x);
}

// Entries of one depth lie together, across all panels: read in the order of memory, four at a time.
template <PackStep STEP>
void pack_across(std::uint64_t* packed, const std::uint64_t* from, const PanelShape& shape, __m256i q) {
    for (std::size_t p = 0; p < shape.depth; ++p, packed += shape.width, from += shape.along) {
        const std::uint64_t* x = from;
        for (std::size_t i = 0; i < shape.panels; ++i, x += shape.width) {
            std::uint64_t* const to = packed + i * shape.pitch;
            for (std::size_t w = 0; w < shape.width; w += 4) pack_four<STEP>(to + w, load_four(x + w), q);
        }
    }
}

// Four lines, entries of which lie together: 4 x 4 entries are transposed.
template <PackStep STEP>
void pack_lines(std::uint64_t* packed, const std::uint64_t* from, const PanelShape& shape, __m256i q) {
    const std::uint64_t* const line[] = {from, from + shape.across, from + 2 * shape.across,
                                         from + 3 * shape.across};
    std::size_t p = 0;
    for (; p + 4 <= shape.depth; p += 4, packed += 4 * shape.width) {
        const __m256i a = load_four(line[0] + p);
        const __m256i b = load_four(line[1] + p);
        const __m256i c = load_four(line[2] + p);
        const __m256i d = load_four(line[3] + p);
        const __m256i ab_even = _mm256_unpacklo_epi64(a, b);
        const __m256i ab_odd = _mm256_unpackhi_epi64(a, b);
        const __m256i cd_even = _mm256_unpacklo_epi64(c, d);
        const __m256i cd_odd = _mm256_unpackhi_epi64(c, d);
        pack_four<STEP>(packed, _mm256_permute2x128_si256(ab_even, cd_even, 0x20), q);
        pack_four<STEP>(packed + shape.width, _mm256_permute2x128_si256(ab_odd, cd_odd, 0x20), q);
        pack_four<STEP>(packed + 2 * shape.width, _mm256_permute2x128_si256(ab_even, cd_even, 0x31), q);
        pack_four<STEP>(packed + 3 * shape.width, _mm256_permute2x128_si256(ab_odd, cd_odd, 0x31), q);
    }
    for (; p < shape.depth; ++p, packed += shape.width) {
        const __m256i x =
            _mm256_set_epi64x(static_cast<long long>(line[3][p]), static_cast<long long>(line[2][p]),
                              static_cast<long long>(line[1][p]), static_cast<long long>(line[0][p]));
        pack_four<STEP>(packed, x, q);
    }
}

template <PackStep STEP>
void pack_step(std::uint64_t* packed, const std::uint64_t* from, const PanelShape& shape, std::uint64_t q) {
    const __m256i modulus = _mm256_set1_epi64x(static_cast<long long>(q));
    if (shape.across == 1) return pack_across<STEP>(packed, from, shape, modulus);
    const std::ptrdiff_t step = static_cast<std::ptrdiff_t>(shape.width) * shape.across;
    for (std::size_t i = 0; i < shape.panels; ++i, packed += shape.pitch, from += step) {
        for (std::size_t w = 0; w < shape.width; w += 4) {
            pack_lines<STEP>(packed + w, from + static_cast<std::ptrdiff_t>(w) * shape.across, shape,
                             modulus);
        }
    }
}

void pack(std::uint64_t* packed, const std::uint64_t* from, const PanelShape& shape, PackStep step,
          std::uint64_t q) {
    switch (step) {
        case PackStep::kCopy:
            return pack_step<PackStep::kCopy>(packed, from, shape, q);
        case PackStep::kCopyNegative:
            return pack_step<PackStep::kCopyNegative>(packed, from, shape, q);
        case PackStep::kAdd:
            return pack_step<PackStep::kAdd>(packed, from, shape, q);
        case PackStep::kSubtract:
            return pack_step<PackStep::kSubtract>(packed, from, shape, q);
    }
}

}  // namespace

const GemmKernels* avx512ifma_table() {
    static const GemmKernels table = {
        "avx512ifma", tile<Sum::kWhole>, tile<Sum::kNarrow>, merge,     pack,     to_double, split,
        reduce,       byte_tile,         byte_sums,          byte_fold, byte_pack};
    return &table;
}

}  // namespace cipherblas::gemm
