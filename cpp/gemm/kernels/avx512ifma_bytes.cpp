// AVX-512 VNNI: products of unsigned and signed bytes, four of which one instruction adds up.
#include "gemm/kernels/tables.h"
#include "ring/kernels/avx512ifma_math.h"

namespace cipherblas::gemm {
namespace {

constexpr std::size_t kLanes = 16;
constexpr std::size_t kVectors = kByteCols / kLanes;
constexpr std::size_t kHalf = 8;  // of the lanes, as doubles

CIPHERBLAS_INLINE void put(double* r, __m256i sums, __m512d weight, bool accumulate) {
    const __m512d x = _mm512_maskz_cvtepi32_pd(kAllLanes, sums);
    // Integers below 2^53: a fused multiply-add is exact.
    _mm512_store_pd(r, accumulate ? _mm512_fmadd_pd(x, weight, _mm512_load_pd(r)) : _mm512_mul_pd(x, weight));
}

// sums += the products of four unsigned and four signed bytes in each lane. By its name: around the intrinsic GCC 12 copies
// accumulators to and fro, which takes half of the speed.
CIPHERBLAS_INLINE void add_products(__m512i& sums, __m512i unsigned_bytes, __m512i signed_bytes) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(unsigned_bytes), "v"(signed_bytes));
}

CIPHERBLAS_INLINE __m512i four_bytes(const std::int8_t* a) {
    std::int32_t word;
    __builtin_memcpy(&word, a, sizeof(word));
    return _mm512_set1_epi32(word);
}

using Sums = __m512i[kByteRows][kVectors];

// sums += the products of two panels.
CIPHERBLAS_INLINE void add_panels(Sums& sums, const std::int8_t* a, const std::uint8_t* b,
                                  std::size_t quads) {
    for (std::size_t p = 0; p < quads; ++p, a += kByteRows * kQuad, b += kByteCols * kQuad) {
        const __m512i right[kVectors] = {_mm512_load_si512(b), _mm512_load_si512(b + kLanes * kQuad)};
#pragma GCC unroll 12
        for (std::size_t i = 0; i < kByteRows; ++i) {
            const __m512i left = four_bytes(a + i * kQuad);
#pragma GCC unroll 2
            for (std::size_t j = 0; j < kVectors; ++j) add_products(sums[i][j], right[j], left);
        }
    }
}

// What the remainders of eight sums modulo p, centred, count.
CIPHERBLAS_INLINE __m512i folded(__m256i sums, __m512d p, __m512d inverse, __m512i weight) {
    const __m512d x = _mm512_maskz_cvtepi32_pd(kAllLanes, sums);
    const __m512d quotient = _mm512_maskz_roundscale_pd(kAllLanes, _mm512_mul_pd(x, inverse),
                                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512d rest = _mm512_fnmadd_pd(quotient, p, x);
    return _mm512_mullo_epi64(_mm512_maskz_cvtpd_epi64(kAllLanes, rest), weight);
}

}  // namespace

void byte_tile(double* r, const std::int8_t* a, const std::uint8_t* b, std::size_t quads, double weight,
               bool accumulate) {
    Sums sums;
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kByteRows; ++i) {
#pragma GCC unroll 2
        for (std::size_t j = 0; j < kVectors; ++j) sums[i][j] = _mm512_setzero_si512();
    }
    add_panels(sums, a, b, quads);
    const __m512d by = _mm512_set1_pd(weight);
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kByteRows; ++i) {
#pragma GCC unroll 2
        for (std::size_t j = 0; j < kVectors; ++j) {
            double* const to = r + i * kByteCols + j * kLanes;
            put(to, _mm512_maskz_extracti64x4_epi64(kAllLanes, sums[i][j], 0), by, accumulate);
            put(to + kHalf, _mm512_maskz_extracti64x4_epi64(kAllLanes, sums[i][j], 1), by, accumulate);
        }
    }
}

void byte_sums(std::int32_t* r, const std::int8_t* a, const std::uint8_t* b, std::size_t quads,
               bool accumulate) {
    Sums sums;
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kByteRows; ++i) {
#pragma GCC unroll 2
        for (std::size_t j = 0; j < kVectors; ++j) {
            const std::int32_t* const from = r + i * kByteCols + j * kLanes;
            sums[i][j] = accumulate ? _mm512_load_si512(from) : _mm512_setzero_si512();
        }
    }
    add_panels(sums, a, b, quads);
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kByteRows; ++i) {
#pragma GCC unroll 2
        for (std::size_t j = 0; j < kVectors; ++j) {
            _mm512_store_si512(r + i * kByteCols + j * kLanes, sums[i][j]);
        }
    }
}

void byte_fold(std::uint64_t* c, std::ptrdiff_t row_stride, const std::int32_t* sums, std::size_t rows,
               std::size_t cols, const OperandModulus& m, int weight) {
    const __m512d p = _mm512_set1_pd(m.p), inverse = _mm512_set1_pd(m.inverse);
    const __m512i by = broadcast(m.weights[weight]);
    for (std::size_t i = 0; i < rows; ++i, c += row_stride, sums += kByteCols) {
        for (std::size_t j = 0; j < cols; j += kHalf) {
            const std::size_t left = cols - j;
            const __mmask8 lanes = left >= kHalf ? kAllLanes : static_cast<__mmask8>((1u << left) - 1);
            const __m256i eight = _mm256_load_si256(reinterpret_cast<const __m256i*>(sums + j));
            const __m512i old = _mm512_maskz_loadu_epi64(lanes, c + j);
            _mm512_mask_storeu_epi64(c + j, lanes, add(old, folded(eight, p, inverse, by)));
        }
    }
}

namespace {

// Four words of each of eight columns, or of as many as the lanes say, byte by byte.
template <bool CENTRED>
void pack_columns(std::uint8_t* to, std::size_t pitch, const std::uint64_t* const* lines, std::size_t col,
                  __mmask8 lanes, int planes, const std::uint8_t* moduli) {
    const __m512i low = _mm512_set1_epi64(0xff);
    __m512i words[kQuad];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kQuad; ++i) words[i] = _mm512_maskz_loadu_epi64(lanes, lines[i] + col);
    for (int plane = 0; plane < planes; ++plane, to += pitch) {
        __m512i four = _mm512_and_si512(words[0], low);
#pragma GCC unroll 3
        for (std::size_t i = 1; i < kQuad; ++i) {
            const __m512i byte = _mm512_and_si512(words[i], low);
            four = _mm512_or_si512(four, shift_left(byte, static_cast<unsigned>(8 * i)));
        }
        __m256i bytes = _mm512_maskz_cvtepi64_epi32(kAllLanes, four);
        if (CENTRED) {
            const __m256i p = _mm256_set1_epi8(static_cast<char>(moduli[plane]));
            const __m256i half = _mm256_set1_epi8(static_cast<char>(moduli[plane] / 2));
            const __mmask32 above = _mm256_cmpgt_epu8_mask(bytes, half);
            bytes = _mm256_mask_sub_epi8(bytes, above, bytes, p);
        }
        _mm256_mask_storeu_epi32(to, lanes, bytes);
#pragma GCC unroll 4
        for (std::size_t i = 0; i < kQuad; ++i) words[i] = shift_right(words[i], 8);
    }
}

}  // namespace

void byte_pack(std::uint8_t* packed, std::size_t pitch, const std::uint64_t* const* lines, std::size_t words,
               int planes, const std::uint8_t* moduli) {
    for (std::size_t col = 0; col < words; col += kHalf) {
        const __mmask8 lanes = words - col >= kHalf ? kAllLanes : __mmask8{0xf};
        std::uint8_t* const to = packed + col * kQuad;
        if (moduli == nullptr) {
            pack_columns<false>(to, pitch, lines, col, lanes, planes, moduli);
        } else {
            pack_columns<true>(to, pitch, lines, col, lanes, planes, moduli);
        }
    }
}

}  // namespace cipherblas::gemm
