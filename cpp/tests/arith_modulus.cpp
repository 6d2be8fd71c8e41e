#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <stdexcept>

#include "arith/modulus.h"
#include "arith/primes.h"

namespace cipherblas {
namespace {

std::vector<std::uint64_t> some_primes() {
    std::vector<std::uint64_t> primes = {3, 5, 7, 17, 97, 65537};
    for (const int bits : {20, 30, 40, 49, 50}) {
        for (const std::uint64_t q : primes_below(8, bits, 2)) primes.push_back(q);
    }
    return primes;
}

TEST(Modulus, ConstantsSatisfyTheirDefinitions) {
    for (const std::uint64_t q : some_primes()) {
        const Modulus m(q);
        EXPECT_EQ(m.q, q);
        EXPECT_LT(q, std::uint64_t{1} << m.bits);
        EXPECT_GE(q, std::uint64_t{1} << (m.bits - 1));
        EXPECT_EQ(m.mu, static_cast<std::uint64_t>((u128{1} << (m.bits + 51)) / q));
        EXPECT_LE(m.mu, kWordMask);
        EXPECT_EQ((m.q * m.q_inv) & kWordMask, 1u);
        EXPECT_EQ(m.r_mod_q, (std::uint64_t{1} << 52) % q);
        EXPECT_EQ(m.r2_mod_q, mul_mod(m.r_mod_q, m.r_mod_q, m));
        EXPECT_EQ(m.q_reciprocal, 1.0 / static_cast<double>(q));
    }
}

TEST(Modulus, RejectsWhatIsNoModulus) {
    for (const std::uint64_t q :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{4}, std::uint64_t{1} << 49,
          (std::uint64_t{1} << 50) + 1, std::numeric_limits<std::uint64_t>::max()}) {
        EXPECT_THROW(Modulus{q}, std::invalid_argument) << q;
    }
}

TEST(Modulus, AdditionAndSubtraction) {
    for (const std::uint64_t q : some_primes()) {
        const Modulus m(q);
        for (const std::uint64_t a : {std::uint64_t{0}, std::uint64_t{1}, q / 2, q - 1}) {
            for (const std::uint64_t b : {std::uint64_t{0}, std::uint64_t{1}, q / 2, q - 1}) {
                EXPECT_EQ(add_mod(a, b, m), (a + b) % q);
                EXPECT_EQ(sub_mod(a, b, m), (a + q - b) % q);
            }
        }
    }
}

TEST(Modulus, MontgomeryReductionOfTheWholeRange) {
    std::mt19937_64 random(1);
    const u128 limit = u128{1} << 114;
    for (const std::uint64_t q : some_primes()) {
        const Modulus m(q);
        std::vector<u128> values = {0, 1, q - 1, q, kWordMask, u128{1} << 52, u128{q} << 52, limit - 1};
        for (int i = 0; i < 1000; ++i) values.push_back(((u128{random()} << 64) | random()) % limit);
        for (const u128 t : values) {
            const std::uint64_t r = montgomery_reduce(t, m);
            ASSERT_LT(r, q);
            ASSERT_EQ(mul_mod(r, m.r_mod_q, m), static_cast<std::uint64_t>(t % q));
        }
    }
}

TEST(Modulus, MontgomeryFormRoundTrip) {
    std::mt19937_64 random(2);
    for (const std::uint64_t q : some_primes()) {
        const Modulus m(q);
        for (int i = 0; i < 100; ++i) {
            const std::uint64_t a = random() % q;
            EXPECT_EQ(montgomery_reduce(to_montgomery(a, m), m), a);
        }
    }
}

TEST(Modulus, PowersAndInverses) {
    std::mt19937_64 random(3);
    for (const std::uint64_t q : some_primes()) {
        const Modulus m(q);
        std::uint64_t power = 1;
        const std::uint64_t base = random() % (q - 1) + 1;
        for (std::uint64_t exponent = 0; exponent < 40; ++exponent) {
            EXPECT_EQ(pow_mod(base, exponent, m), power);
            power = mul_mod(power, base, m);
        }
        EXPECT_EQ(pow_mod(base, q - 1, m), 1u);
        for (int i = 0; i < 100; ++i) {
            const std::uint64_t a = random() % (q - 1) + 1;
            EXPECT_EQ(mul_mod(a, inv_mod(a, m), m), 1u);
        }
        EXPECT_THROW(inv_mod(0, m), std::invalid_argument);
        EXPECT_THROW(inv_mod(q, m), std::invalid_argument);
    }
}

}  // namespace
}  // namespace cipherblas
