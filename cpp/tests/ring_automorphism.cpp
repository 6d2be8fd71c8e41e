#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "ring/automorphism.h"
#include "ring/ntt.h"
#include "ring_support.h"

namespace cipherblas {
namespace {

using testing::Limb;
using testing::make_limb;

// a(X^g) mod X^n + 1, on coefficients.
Limb substitute(const Limb& a, std::uint64_t galois, const Modulus& m) {
    const std::size_t n = a.size();
    Limb r(n);
    for (std::size_t i = 0; i < n; ++i) {
        const std::size_t exponent = i * galois % (2 * n);
        r[exponent % n] = exponent < n ? a[i] : sub_mod(0, a[i], m);
    }
    return r;
}

TEST(Permutation, IsTheAutomorphismInEvaluationForm) {
    std::mt19937_64 random(1);
    for (int log_n = 3; log_n <= 8; ++log_n) {
        const std::size_t n = std::size_t{1} << log_n;
        const Modulus m(primes_below(n, 50, 1)[0]);
        const NttTable table(m, log_n);
        const Limb a = make_limb(n, m.q, random);
        Limb evaluations = a;
        kernels().ntt(evaluations.data(), table);
        for (std::uint64_t galois = 1; galois < 2 * n; galois += 2) {
            Limb expected = substitute(a, galois, m);
            kernels().ntt(expected.data(), table);
            Limb r(n);
            kernels().permute(r.data(), evaluations.data(), Permutation(galois, log_n), n);
            ASSERT_EQ(r, expected) << "n " << n << " galois " << galois;
        }
    }
}

TEST(Permutation, BlocksAndLanesSayTheSameAsTheIndex) {
    for (int log_n = 3; log_n <= 17; ++log_n) {
        const std::uint64_t n = std::uint64_t{1} << log_n;
        for (const std::uint64_t galois :
             {std::uint64_t{1}, std::uint64_t{5}, galois_element(7, log_n), 2 * n - 1}) {
            const Permutation p(galois, log_n);
            ASSERT_EQ(p.index.size(), n);
            ASSERT_EQ(p.blocks.size(), n / 8);
            std::vector<bool> seen(n);
            for (std::uint64_t i = 0; i < n; ++i) {
                const std::uint32_t block = p.blocks[i / 8];
                ASSERT_EQ(p.index[i], 8 * (block >> 3) + p.lanes[block & 7][i % 8]);
                ASSERT_FALSE(seen[p.index[i]]);
                seen[p.index[i]] = true;
            }
        }
    }
}

TEST(Permutation, AlignedChunksComeFromAlignedChunks) {
    const Permutation p(galois_element(11, 12), 12);
    for (std::uint32_t size = 8; size <= 4096; size *= 2) {
        for (std::uint32_t i = 0; i < 4096; ++i) ASSERT_EQ(p.index[i] / size, p.index[i - i % size] / size);
    }
}

TEST(Permutation, ComposesLikeTheGroup) {
    const int log_n = 10;
    const std::uint64_t n = 1 << log_n;
    const std::uint64_t g = galois_element(3, log_n);
    const std::uint64_t h = 2 * n - 1;
    const Permutation first(g, log_n);
    const Permutation second(h, log_n);
    const Permutation both(g * h % (2 * n), log_n);
    for (std::uint64_t i = 0; i < n; ++i) ASSERT_EQ(first.index[second.index[i]], both.index[i]);
}

TEST(Permutation, RejectsBadArguments) {
    EXPECT_THROW(Permutation(2, 10), std::invalid_argument);
    EXPECT_THROW(Permutation(0, 10), std::invalid_argument);
    EXPECT_THROW(Permutation(2049, 10), std::invalid_argument);
    EXPECT_THROW(Permutation(5, 2), std::invalid_argument);
    EXPECT_THROW(Permutation(5, 18), std::invalid_argument);
    EXPECT_THROW(galois_element(1, 2), std::invalid_argument);
}

TEST(GaloisElement, IsTheStepthPowerOfFive) {
    for (const int log_n : {3, 10, 17}) {
        const std::uint64_t two_n = std::uint64_t{2} << log_n;
        const std::int64_t slots = std::int64_t{1} << (log_n - 1);
        std::uint64_t power = 1;
        for (std::int64_t step = 0; step < std::min<std::int64_t>(slots, 100); ++step) {
            EXPECT_EQ(galois_element(step, log_n), power);
            EXPECT_EQ(galois_element(step - slots, log_n), power);
            EXPECT_EQ(galois_element(step + 3 * slots, log_n), power);
            EXPECT_EQ(galois_element(-step, log_n) * power % two_n, 1u);
            power = power * 5 % two_n;
        }
    }
}

}  // namespace
}  // namespace cipherblas
