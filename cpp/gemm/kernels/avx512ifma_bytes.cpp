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

}  // namespace

void byte_tile(double* r, const std::int8_t* a, const std::uint8_t* b, std::size_t quads, double weight,
               bool accumulate) {
    __m512i sums[kByteRows][kVectors];
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kByteRows; ++i) {
#pragma GCC unroll 2
        for (std::size_t j = 0; j < kVectors; ++j) sums[i][j] = _mm512_setzero_si512();
    }
    for (std::size_t p = 0; p < quads; ++p, a += kByteRows * kQuad, b += kByteCols * kQuad) {
        const __m512i right[kVectors] = {_mm512_load_si512(b), _mm512_load_si512(b + kLanes * kQuad)};
#pragma GCC unroll 12
        for (std::size_t i = 0; i < kByteRows; ++i) {
            const __m512i left = four_bytes(a + i * kQuad);
#pragma GCC unroll 2
            for (std::size_t j = 0; j < kVectors; ++j) add_products(sums[i][j], right[j], left);
        }
    }
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

void byte_pack(std::uint8_t* packed, std::size_t pitch, const std::uint64_t* const* lines, int planes) {
    const __m512i low = _mm512_set1_epi64(0xff);
    for (std::size_t col = 0; col < kByteCols; col += kHalf) {
        __m512i words[kQuad];
#pragma GCC unroll 4
        for (std::size_t i = 0; i < kQuad; ++i) words[i] = _mm512_loadu_si512(lines[i] + col);
        std::uint8_t* to = packed + col * kQuad;
        for (int plane = 0; plane < planes; ++plane, to += pitch) {
            __m512i four = _mm512_and_si512(words[0], low);
#pragma GCC unroll 3
            for (std::size_t i = 1; i < kQuad; ++i) {
                const __m512i byte = _mm512_and_si512(words[i], low);
                four = _mm512_or_si512(four, shift_left(byte, static_cast<unsigned>(8 * i)));
            }
            _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi64_epi32(kAllLanes, four));
#pragma GCC unroll 4
            for (std::size_t i = 0; i < kQuad; ++i) words[i] = shift_right(words[i], 8);
        }
    }
}

}  // namespace cipherblas::gemm
