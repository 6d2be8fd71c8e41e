// The embedding with AVX2: four numbers at a time.
#include <immintrin.h>

#include "ckks/kernels/embedding.h"
#include "ckks/kernels/tables.h"

namespace cipherblas {
namespace {

struct Doubles4 {
    using Vector = __m256d;
    static constexpr std::size_t kLanes = 4;
    static constexpr int kLogLanes = 2;
    static constexpr int kMostLayers = 3;

    struct Fits {
        __m256d each = _mm256_castsi256_pd(_mm256_set1_epi64x(-1));
        bool all() const { return _mm256_movemask_pd(each) == 0xf; }
    };

    CIPHERBLAS_EMBEDDING_INLINE static __m256d load(const double* p) { return _mm256_loadu_pd(p); }
    CIPHERBLAS_EMBEDDING_INLINE static void store(double* p, __m256d x) { _mm256_storeu_pd(p, x); }
    CIPHERBLAS_EMBEDDING_INLINE static void store(std::int64_t* p, __m256d x) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_castpd_si256(x));
    }
    CIPHERBLAS_EMBEDDING_INLINE static __m256d broadcast(double x) { return _mm256_set1_pd(x); }

    CIPHERBLAS_EMBEDDING_INLINE static void transpose(__m256d* x) {
        const __m256d a = _mm256_unpacklo_pd(x[0], x[1]), b = _mm256_unpackhi_pd(x[0], x[1]);
        const __m256d c = _mm256_unpacklo_pd(x[2], x[3]), d = _mm256_unpackhi_pd(x[2], x[3]);
        x[0] = _mm256_permute2f128_pd(a, c, 0x20);
        x[1] = _mm256_permute2f128_pd(b, d, 0x20);
        x[2] = _mm256_permute2f128_pd(a, c, 0x31);
        x[3] = _mm256_permute2f128_pd(b, d, 0x31);
    }

    // 1.5 * 2^52 + x holds the nearest integer to x in its lowest bits, for |x| < 2^51.
    CIPHERBLAS_EMBEDDING_INLINE static void store_rounded(std::int64_t* p, __m256d x, Fits& fits) {
        const __m256d size = _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
        if (_mm256_movemask_pd(_mm256_cmp_pd(size, _mm256_set1_pd(0x1p51), _CMP_LT_OQ)) == 0xf) {
            const __m256d magic = _mm256_set1_pd(0x1.8p52);
            const __m256i biased = _mm256_castpd_si256(_mm256_add_pd(x, magic));
            const __m256i rounded = _mm256_sub_epi64(biased, _mm256_castpd_si256(magic));
            return _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded);
        }
        fits.each = _mm256_and_pd(fits.each, _mm256_cmp_pd(size, _mm256_set1_pd(0x1p62), _CMP_LT_OQ));
        alignas(32) double each[4];
        _mm256_store_pd(each, x);
        embedding::Doubles1::Fits ignored;
        for (int k = 0; k < 4; ++k) embedding::Doubles1::store_rounded(p + k, each[k], ignored);
    }
};

}  // namespace

const EmbeddingKernels* avx2_embedding() {
    static constexpr EmbeddingKernels kTable = {
        .name = "avx2",
        .encode = embedding::encode_any<Doubles4>,
        .decode = embedding::decode_any<Doubles4>,
    };
    return &kTable;
}

}  // namespace cipherblas
