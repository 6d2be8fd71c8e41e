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
                high[i][j] = add_high(high[i][j], left, right[j]);
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

}  // namespace

const GemmKernels* avx512ifma_table() {
    static const GemmKernels table = {"avx512ifma", tile, merge, to_double, split, reduce};
    return &table;
}

}  // namespace cipherblas::gemm
