// The embedding with AVX-512: eight numbers at a time.
#include <immintrin.h>

#include "ckks/kernels/embedding.h"
#include "ckks/kernels/tables.h"

namespace cipherblas {
namespace {

// Masked by all ones where GCC 12 warns falsely of the unmasked intrinsic, as in ring/kernels/avx512ifma_math.h.
constexpr __mmask8 kAll = 0xff;

struct Doubles8 {
    using Vector = __m512d;
    static constexpr std::size_t kLanes = 8;
    static constexpr int kLogLanes = 3;
    static constexpr int kMostLayers = 3;

    struct Fits {
        __mmask8 each = kAll;
        bool all() const { return each == kAll; }
    };

    CIPHERBLAS_EMBEDDING_INLINE static __m512d load(const double* p) { return _mm512_loadu_pd(p); }
    CIPHERBLAS_EMBEDDING_INLINE static void store(double* p, __m512d x) { _mm512_storeu_pd(p, x); }
    CIPHERBLAS_EMBEDDING_INLINE static void store(std::int64_t* p, __m512d x) { _mm512_storeu_pd(p, x); }
    CIPHERBLAS_EMBEDDING_INLINE static __m512d broadcast(double x) { return _mm512_set1_pd(x); }

    // Numbers, then pairs of them, then halves.
    CIPHERBLAS_EMBEDDING_INLINE static void transpose(__m512d* x) {
        __m512d y[8];
#pragma GCC unroll 4
        for (int i = 0; i < 8; i += 2) {
            y[i] = _mm512_maskz_unpacklo_pd(kAll, x[i], x[i + 1]);
            y[i + 1] = _mm512_maskz_unpackhi_pd(kAll, x[i], x[i + 1]);
        }
        const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
        const __m512i high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
#pragma GCC unroll 2
        for (int half = 0; half < 8; half += 4) {
#pragma GCC unroll 2
            for (int i = half; i < half + 2; ++i) {
                x[i] = _mm512_permutex2var_pd(y[i], low, y[i + 2]);
                x[i + 2] = _mm512_permutex2var_pd(y[i], high, y[i + 2]);
            }
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            const __m512d a = x[i], b = x[i + 4];
            x[i] = _mm512_maskz_shuffle_f64x2(kAll, a, b, 0x44);
            x[i + 4] = _mm512_maskz_shuffle_f64x2(kAll, a, b, 0xee);
        }
    }

    CIPHERBLAS_EMBEDDING_INLINE static void store_rounded(std::int64_t* p, __m512d x, Fits& fits) {
        const __m512d bound = _mm512_set1_pd(0x1p62);
        fits.each &= _mm512_cmp_pd_mask(_mm512_abs_pd(x), bound, _CMP_LT_OQ);
        const __m512i rounded =
            _mm512_maskz_cvt_roundpd_epi64(kAll, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm512_storeu_si512(p, rounded);
    }
};

}  // namespace

const EmbeddingKernels* avx512ifma_embedding() {
    static constexpr EmbeddingKernels kTable = {
        .name = "avx512ifma",
        .encode = embedding::encode_any<Doubles8>,
        .decode = embedding::decode_any<Doubles8>,
    };
    return &kTable;
}

}  // namespace cipherblas
