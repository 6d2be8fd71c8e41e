// The kernels that go through limbs word by word, against one-line definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "ring_support.h"

namespace cipherblas {
namespace {

using testing::Fill;
using testing::kFills;
using testing::Limb;
using testing::make_limb;
using testing::pointers;
using testing::scalar;
using testing::test_moduli;

using Expected = std::function<std::uint64_t(std::uint64_t, std::uint64_t)>;
using Run = std::function<void(Limb&, const Limb&, const Limb&)>;

// Compares run(r, a, b) with expected(a[i], b[i]) over all fills, and once with r = a in place.
void check(const Modulus& m, const Run& run, const Expected& expected) {
    std::mt19937_64 random(m.q);
    for (const std::size_t n : {8u, 24u, 72u, 1024u}) {
        for (const Fill fill_a : kFills) {
            for (const Fill fill_b : kFills) {
                const Limb a = make_limb(n, m.q, random, fill_a);
                const Limb b = make_limb(n, m.q, random, fill_b);
                Limb r(n);
                run(r, a, b);
                Limb in_place = a;
                run(in_place, in_place, b);
                for (std::size_t i = 0; i < n; ++i) {
                    ASSERT_EQ(r[i], expected(a[i], b[i])) << "q " << m.q << " a " << a[i] << " b " << b[i];
                    ASSERT_EQ(in_place[i], r[i]);
                }
            }
        }
    }
}

std::vector<Modulus> moduli() {
    std::vector<Modulus> result = test_moduli(10);
    for (const std::uint64_t q : {3ull, 5ull, 17ull, 1125899906842597ull}) result.emplace_back(q);
    // Just above a power of two Barrett's estimates are at their worst.
    for (const std::uint64_t q : primes_near(1024, 0x1p49 + 0x1p25, 6)) result.emplace_back(q);
    return result;
}

TEST(Limbs, Add) {
    for (const Modulus& m : moduli()) {
        check(
            m,
            [&](Limb& r, const Limb& a, const Limb& b) {
                kernels().add(r.data(), a.data(), b.data(), r.size(), m);
            },
            [&](auto a, auto b) { return (a + b) % m.q; });
    }
}

TEST(Limbs, Sub) {
    for (const Modulus& m : moduli()) {
        check(
            m,
            [&](Limb& r, const Limb& a, const Limb& b) {
                kernels().sub(r.data(), a.data(), b.data(), r.size(), m);
            },
            [&](auto a, auto b) { return (a + m.q - b) % m.q; });
    }
}

TEST(Limbs, Neg) {
    for (const Modulus& m : moduli()) {
        check(
            m, [&](Limb& r, const Limb& a, const Limb&) { kernels().neg(r.data(), a.data(), r.size(), m); },
            [&](auto a, auto) { return (m.q - a) % m.q; });
    }
}

TEST(Limbs, Mul) {
    for (const Modulus& m : moduli()) {
        check(
            m,
            [&](Limb& r, const Limb& a, const Limb& b) {
                kernels().mul(r.data(), a.data(), b.data(), r.size(), m);
            },
            [&](auto a, auto b) { return mul_mod(a, b, m); });
    }
}

TEST(Limbs, MulMont) {
    for (const Modulus& m : moduli()) {
        const std::uint64_t radix_inverse = inv_mod(m.r_mod_q, m);
        check(
            m,
            [&](Limb& r, const Limb& a, const Limb& b) {
                kernels().mul_mont(r.data(), a.data(), b.data(), r.size(), m);
            },
            [&](auto a, auto b) { return mul_mod(mul_mod(a, b, m), radix_inverse, m); });
    }
}

TEST(Limbs, MulScalarAndAddMulScalar) {
    std::mt19937_64 random(1);
    for (const Modulus& m : moduli()) {
        for (const std::uint64_t c : {std::uint64_t{0}, std::uint64_t{1}, m.q - 1, random() % m.q}) {
            check(
                m,
                [&](Limb& r, const Limb& a, const Limb&) {
                    kernels().mul_scalar(r.data(), a.data(), c, r.size(), m);
                },
                [&](auto a, auto) { return mul_mod(a, c, m); });
            check(
                m,
                [&](Limb& r, const Limb& a, const Limb& b) {
                    kernels().add_mul_scalar(r.data(), a.data(), b.data(), c, r.size(), m);
                },
                [&](auto a, auto b) { return mul_mod((a + b) % m.q, c, m); });
        }
    }
}

TEST(Limbs, FromSigned) {
    std::mt19937_64 random(2);
    constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
    constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
    for (const Modulus& m : moduli()) {
        const auto q = static_cast<std::int64_t>(m.q);
        AlignedVector<std::int64_t> a = {0,     1,      -1,   q,        -q,   q - 1,   1 - q,
                                         2 * q, -2 * q, kMin, kMin + 1, kMax, kMax - 1};
        while (a.size() < 512) a.push_back(static_cast<std::int64_t>(random()) >> (random() % 64));
        Limb r(a.size());
        kernels().from_signed(r.data(), a.data(), a.size(), m);
        for (std::size_t i = 0; i < a.size(); ++i) {
            const __int128 residue = (static_cast<__int128>(a[i]) % q + q) % q;
            ASSERT_EQ(r[i], static_cast<std::uint64_t>(residue)) << "q " << m.q << " a " << a[i];
        }
    }
}

TEST(Limbs, GaussianValuesEqualTheScalarOnes) {
    std::mt19937_64 random(5);
    for (const std::size_t n : {0u, 1u, 7u, 8u, 33u, 515u, 4096u}) {
        const Limb words = make_limb(n, std::uint64_t(-1), random, Fill::kExtremes);
        std::vector<std::int64_t> expected(n + 1, 99), got(n + 1, 99);
        scalar().gaussian(expected.data(), words.data(), n);
        kernels().gaussian(got.data(), words.data(), n);
        ASSERT_EQ(got, expected) << n;
    }
}

TEST(Limbs, UniformResiduesAreThoseOfAcceptedWords) {
    std::mt19937_64 random(6);
    std::vector<Modulus> all = moduli();
    for (const std::uint64_t q : {3u, 65521u, 65537u}) all.emplace_back(q);
    for (const Modulus& m : all) {
        const u128 limit = (u128{1} << 64) / m.q * m.q;
        for (const std::size_t n : {0u, 1u, 7u, 8u, 33u, 515u}) {
            for (const std::size_t refused : {std::size_t{0}, n / 2, n}) {
                std::vector<std::uint64_t> words(n + 1), got(n + 2, 99);
                for (std::uint64_t& word : words) {
                    do {
                        word = random() >> (random() % 4 == 0 ? random() % 64 : 0);
                    } while (word >= limit);
                }
                // Multiples of q and their neighbours, where an estimate of the quotient may be off by one.
                for (std::size_t i = 0; i < n; i += 3) {
                    words[i] = words[i] / m.q * m.q + (i % 2 == 0 ? 0 : m.q - 1);
                }
                if (n > 1) words[1] = static_cast<std::uint64_t>(limit - 1);
                if (refused < n) words[refused] = ~std::uint64_t{0};
                const std::size_t wanted = refused < n ? refused : n;
                // One word on: nothing is aligned.
                ASSERT_EQ(kernels().uniform(got.data() + 1, words.data(), n, m), wanted) << m.q << " " << n;
                for (std::size_t i = 0; i < wanted; ++i) {
                    ASSERT_EQ(got[i + 1], words[i] % m.q) << m.q << " " << words[i];
                }
                ASSERT_EQ(got[0], 99u);
                ASSERT_EQ(got[n + 1], 99u);
            }
        }
    }
}

TEST(BaseConversion, OverflowIsTheRoundedSum) {
    std::mt19937_64 random(3);
    for (const int count : {1, 2, 3, 7, 64}) {
        for (const std::size_t n : {8u, 40u, 64u, 1024u}) {
            const std::vector<std::uint64_t> primes = primes_below(1024, 50, count);
            for (const Fill fill : kFills) {
                std::vector<Limb> y;
                std::vector<double> reciprocal;
                for (const std::uint64_t d : primes) {
                    y.push_back(make_limb(n, d, random, fill));
                    reciprocal.push_back(1.0 / static_cast<double>(d));
                }
                const auto y_pointers = pointers(y);
                Limb v(n);
                kernels().base_overflow(v.data(), y_pointers.data(), reciprocal.data(), count, n);
                for (std::size_t i = 0; i < n; ++i) {
                    double sum = 0.0;
                    for (int j = 0; j < count; ++j) {
                        volatile double product = static_cast<double>(y[j][i]) * reciprocal[j];
                        sum += product;
                    }
                    ASSERT_EQ(v[i], static_cast<std::uint64_t>(std::floor(sum + 0.5)));
                }
            }
        }
    }
}

TEST(BaseConversion, IsTheSumOfProducts) {
    std::mt19937_64 random(4);
    constexpr std::uint64_t kLargest = std::uint64_t{1} << 50;
    for (const Modulus& m : moduli()) {
        const std::uint64_t radix_inverse = inv_mod(m.r_mod_q, m);
        for (const int count : {1, 2, 3, 4, 12, 63, 64}) {
            for (const Fill fill : kFills) {
                const std::size_t n = count == 3 ? 1024 : 40;
                std::vector<Limb> y;
                for (int j = 0; j < count; ++j) y.push_back(make_limb(n, kLargest, random, fill));
                const auto y_pointers = pointers(y);
                const Limb v = make_limb(n, 65, random, fill);
                const Limb factor = make_limb(static_cast<std::size_t>(count) + 1, m.q, random, fill);
                for (const bool with_overflow : {false, true}) {
                    Limb r(n);
                    kernels().base_convert(r.data(), y_pointers.data(), factor.data(), count,
                                           with_overflow ? v.data() : nullptr, factor[count], n, m);
                    for (std::size_t i = 0; i < n; ++i) {
                        u128 sum = with_overflow ? u128{v[i]} * factor[count] : 0;
                        for (int j = 0; j < count; ++j) sum += u128{y[j][i]} * factor[j];
                        ASSERT_EQ(r[i], mul_mod(static_cast<std::uint64_t>(sum % m.q), radix_inverse, m))
                            << "q " << m.q << " count " << count;
                    }
                }
            }
        }
    }
}

TEST(BaseConversion, CentredRepresentativeIsExact) {
    // Residues of small signed integers modulo three primes come back as the same integers modulo a fourth one.
    const std::vector<std::uint64_t> primes = primes_below(1024, 50, 4);
    const Modulus target(primes[3]);
    std::mt19937_64 random(5);
    constexpr std::size_t kN = 256;
    AlignedVector<std::int64_t> x(kN);
    for (std::int64_t& value : x) value = static_cast<std::int64_t>(random()) >> (random() % 60);
    u128 product_mod_target = 1;
    for (int j = 0; j < 3; ++j) product_mod_target = product_mod_target * primes[j] % target.q;
    std::vector<Limb> y;
    std::vector<double> reciprocal;
    Limb factor;
    for (int j = 0; j < 3; ++j) {
        const Modulus d(primes[j]);
        std::uint64_t cofactor = 1;  // D / d_j mod d_j
        std::uint64_t cofactor_mod_target = 1;
        for (int k = 0; k < 3; ++k) {
            if (k == j) continue;
            cofactor = mul_mod(cofactor, primes[k] % d.q, d);
            cofactor_mod_target = mul_mod(cofactor_mod_target, primes[k] % target.q, target);
        }
        Limb residues(kN);
        kernels().from_signed(residues.data(), x.data(), kN, d);
        kernels().mul_scalar(residues.data(), residues.data(), inv_mod(cofactor, d), kN, d);
        y.push_back(residues);
        reciprocal.push_back(1.0 / static_cast<double>(d.q));
        factor.push_back(to_montgomery(cofactor_mod_target, target));
    }
    const auto y_pointers = pointers(y);
    Limb v(kN), r(kN), expected(kN);
    kernels().base_overflow(v.data(), y_pointers.data(), reciprocal.data(), 3, kN);
    const std::uint64_t minus_product = sub_mod(0, static_cast<std::uint64_t>(product_mod_target), target);
    kernels().base_convert(r.data(), y_pointers.data(), factor.data(), 3, v.data(),
                           to_montgomery(minus_product, target), kN, target);
    kernels().from_signed(expected.data(), x.data(), kN, target);
    EXPECT_EQ(r, expected);
}

}  // namespace
}  // namespace cipherblas
