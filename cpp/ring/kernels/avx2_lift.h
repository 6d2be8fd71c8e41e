// Signed words modulo a prime, with AVX2.
#pragma once
#include "ring/kernels/avx2_math.h"

namespace cipherblas {
namespace {

CIPHERBLAS_INLINE __m256i load_signed(const std::int64_t* a) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a));
}

// Words times a factor below q: x = 2^32 h + l with -2^31 <= h < 2^31 and 0 <= l < 2^32 is a sum of two products.
class Lift {
  public:
    CIPHERBLAS_INLINE Lift(Word factor, const Modulus& m)
        : split(32 + m.bits),
          high_(broadcast(static_cast<double>(mul_mod((Word{1} << 32) % m.q, factor, m)))),
          low_(broadcast(static_cast<double>(factor))) {}

    CIPHERBLAS_INLINE void add_to(Sum& sum, __m256i x) const {
        const __m256i h_biased = _mm256_xor_si256(_mm256_srli_epi64(x, 32), broadcast(Word{1} << 31));
        sum.add_product(_mm256_sub_pd(to_real(h_biased), broadcast(0x1p31)), high_);
        sum.add_product(to_real(_mm256_and_si256(x, broadcast(Word{0xffffffff}))), low_);
    }

    // The sum of one or two words in (-q, q).
    CIPHERBLAS_INLINE __m256d sum(const Sum& products, const Lanes& m) const {
        return multiply(products.folded(split, m, false), broadcast(1.0), m);
    }

    Split split;  // of the products

  private:
    __m256d high_, low_;
};

}  // namespace
}  // namespace cipherblas
