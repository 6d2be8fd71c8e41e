#include <gtest/gtest.h>

#include <stdexcept>

#include "ring/bit_reverse.h"
#include "ring/ntt.h"
#include "ring_support.h"

namespace cipherblas {
namespace {

using testing::Fill;
using testing::kFills;
using testing::Limb;
using testing::make_limb;
using testing::scalar;
using testing::test_moduli;

// a * b mod X^n + 1.
Limb schoolbook_product(const Limb& a, const Limb& b, const Modulus& m) {
    const std::size_t n = a.size();
    Limb r(n);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
            const std::uint64_t product = mul_mod(a[i], b[j], m);
            std::uint64_t& target = r[(i + j) % n];
            target = i + j < n ? add_mod(target, product, m) : sub_mod(target, product, m);
        }
    }
    return r;
}

TEST(NttTable, RootsAreWhatTheyAreCalled) {
    for (const int log_n : {3, 6, 10}) {
        const std::uint32_t n = 1u << log_n;
        for (const Modulus& m : test_moduli(log_n)) {
            const NttTable table(m, log_n);
            EXPECT_EQ(pow_mod(table.psi, n, m), m.q - 1);
            EXPECT_EQ(mul_mod(table.n_inverse, n % m.q, m), 1u);
            for (std::uint32_t i = 0; i < n; ++i) {
                const std::uint64_t w = pow_mod(table.psi, bit_reverse(i, log_n), m);
                ASSERT_EQ(table.roots.plain[i], w);
                ASSERT_EQ(table.roots.quotient[i], static_cast<std::uint64_t>((u128{w} << 52) / m.q));
                ASSERT_EQ(table.roots.montgomery[i], to_montgomery(w, m));
                ASSERT_EQ(mul_mod(table.inverse_roots.plain[i], w, m), 1u);
            }
        }
    }
}

TEST(NttTable, PsiIsTheSmallestPrimitiveRoot) {
    for (const Modulus& m : test_moduli(4)) {
        const NttTable table(m, 4);
        std::uint64_t power = table.psi;
        for (int i = 0; i < 16; ++i) {
            EXPECT_LE(table.psi, power);
            power = mul_mod(power, mul_mod(table.psi, table.psi, m), m);
        }
    }
}

TEST(NttTable, RejectsBadArguments) {
    const Modulus m(primes_below(1 << 10, 50, 1)[0]);
    EXPECT_THROW(NttTable(m, 2), std::invalid_argument);
    EXPECT_THROW(NttTable(m, 18), std::invalid_argument);
    EXPECT_THROW(NttTable(Modulus(1125899906842597), 10),
                 std::invalid_argument);                               // prime, but not 1 mod 2048
    EXPECT_THROW(NttTable(Modulus(2049), 10), std::invalid_argument);  // 1 mod 2048, but 3 * 683
}

TEST(Ntt, EvaluatesAtBitReversedOddPowersOfPsi) {
    std::mt19937_64 random(1);
    for (int log_n = 3; log_n <= 8; ++log_n) {
        const std::uint32_t n = 1u << log_n;
        for (const Modulus& m : test_moduli(log_n)) {
            const NttTable table(m, log_n);
            const Limb a = make_limb(n, m.q, random);
            Limb x = a;
            kernels().ntt(x.data(), table);
            for (std::uint32_t i = 0; i < n; ++i) {
                const std::uint64_t point = pow_mod(table.psi, 2 * bit_reverse(i, log_n) + 1, m);
                std::uint64_t value = 0;
                for (std::uint32_t j = n; j-- > 0;) value = add_mod(mul_mod(value, point, m), a[j], m);
                ASSERT_EQ(x[i], value) << "n " << n << " q " << m.q << " position " << i;
            }
        }
    }
}

TEST(Ntt, ProductIsTheNegacyclicConvolution) {
    std::mt19937_64 random(2);
    for (int log_n = 3; log_n <= 10; ++log_n) {
        const std::size_t n = std::size_t{1} << log_n;
        for (const Modulus& m : test_moduli(log_n)) {
            const NttTable table(m, log_n);
            for (const Fill fill : {Fill::kRandom, Fill::kLargest}) {
                Limb a = make_limb(n, m.q, random, fill);
                Limb b = make_limb(n, m.q, random, Fill::kExtremes);
                const Limb expected = schoolbook_product(a, b, m);
                kernels().ntt(a.data(), table);
                kernels().ntt(b.data(), table);
                kernels().mul(a.data(), a.data(), b.data(), n, m);
                kernels().intt(a.data(), table);
                ASSERT_EQ(a, expected) << "n " << n << " q " << m.q;
            }
        }
    }
}

TEST(Ntt, EqualsTheScalarTransformAndInverts) {
    std::mt19937_64 random(3);
    for (int log_n = 3; log_n <= 17; ++log_n) {
        const std::size_t n = std::size_t{1} << log_n;
        for (const Modulus& m : test_moduli(log_n)) {
            const NttTable table(m, log_n);
            for (const Fill fill : kFills) {
                const Limb a = make_limb(n, m.q, random, fill);
                Limb x = a;
                Limb reference = a;
                kernels().ntt(x.data(), table);
                scalar().ntt(reference.data(), table);
                ASSERT_EQ(x, reference) << "forward, n " << n << " q " << m.q;
                kernels().intt(x.data(), table);
                ASSERT_EQ(x, a) << "round trip, n " << n << " q " << m.q;
                Limb y = a;
                reference = a;
                kernels().intt(y.data(), table);
                scalar().intt(reference.data(), table);
                ASSERT_EQ(y, reference) << "inverse, n " << n << " q " << m.q;
            }
        }
    }
}

TEST(Ntt, ScaledInverseEqualsTheProductAndTheInverse) {
    std::mt19937_64 random(4);
    for (int log_n = 3; log_n <= 17; ++log_n) {
        const std::size_t n = std::size_t{1} << log_n;
        for (const Modulus& m : test_moduli(log_n)) {
            const NttTable table(m, log_n);
            const Limb a = make_limb(n, m.q, random, Fill::kExtremes);
            for (const std::uint64_t factor : {std::uint64_t{0}, std::uint64_t{1}, m.q - 1, random() % m.q}) {
                Limb reference(n);
                scalar().mul_scalar(reference.data(), a.data(), factor, n, m);
                scalar().intt(reference.data(), table);
                Limb apart(n);
                kernels().intt_scaled(apart.data(), a.data(), factor, table);
                ASSERT_EQ(apart, reference) << "n " << n << " q " << m.q << " factor " << factor;
                Limb in_place = a;
                kernels().intt_scaled(in_place.data(), in_place.data(), factor, table);
                ASSERT_EQ(in_place, reference) << "in place, n " << n << " q " << m.q << " factor " << factor;
            }
        }
    }
}

TEST(Ntt, TransformsTogetherEqualTransformsOneByOne) {
    std::mt19937_64 random(5);
    for (int log_n = 3; log_n <= 17; ++log_n) {
        const std::size_t n = std::size_t{1} << log_n;
        const Modulus m = test_moduli(log_n).back();
        const NttTable table(m, log_n);
        for (std::size_t count = 0; count <= 5; ++count) {
            const std::uint64_t factor = random() % m.q;
            std::vector<Limb> together, minuends, expected, differences, results(count, Limb(n));
            for (std::size_t k = 0; k < count; ++k) {
                together.push_back(make_limb(n, m.q, random, Fill::kExtremes));
                minuends.push_back(make_limb(n, m.q, random, Fill::kExtremes));
                expected.push_back(together[k]);
                scalar().ntt(expected[k].data(), table);
                differences.emplace_back(n);
                scalar().sub_mul_scalar(differences[k].data(), minuends[k].data(), expected[k].data(), factor,
                                        n, m);
            }
            std::vector<Limb> scratch = together;
            std::vector<std::uint64_t*> x, y, r;
            std::vector<const std::uint64_t*> a;
            for (std::size_t k = 0; k < count; ++k) {
                x.push_back(together[k].data());
                y.push_back(scratch[k].data());
                // In place and apart in turn.
                r.push_back(k % 2 == 0 ? results[k].data() : minuends[k].data());
                a.push_back(minuends[k].data());
            }
            kernels().ntt_many(x.data(), count, table);
            kernels().ntt_sub_mul_scalar(r.data(), a.data(), y.data(), count, factor, table);
            for (std::size_t k = 0; k < count; ++k) {
                ASSERT_EQ(together[k], expected[k]) << "n " << n << ", row " << k << " of " << count;
                ASSERT_EQ(k % 2 == 0 ? results[k] : minuends[k], differences[k])
                    << "n " << n << ", row " << k << " of " << count;
            }
        }
    }
}

}  // namespace
}  // namespace cipherblas
