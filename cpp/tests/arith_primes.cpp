#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

#include "arith/primes.h"

namespace cipherblas {
namespace {

bool is_prime_by_division(std::uint64_t x) {
    if (x < 2) return false;
    for (std::uint64_t d = 2; d * d <= x; ++d) {
        if (x % d == 0) return false;
    }
    return true;
}

TEST(Primes, AgreesWithTrialDivision) {
    for (std::uint64_t x = 0; x < 20000; ++x) ASSERT_EQ(is_prime(x), is_prime_by_division(x)) << x;
    const std::uint64_t start = (std::uint64_t{1} << 40) - 200;
    for (std::uint64_t x = start; x < start + 400; ++x) ASSERT_EQ(is_prime(x), is_prime_by_division(x)) << x;
}

TEST(Primes, StrongPseudoprimesAndLargeIntegers) {
    // Carmichael numbers, strong pseudoprimes to many bases, squares of primes, semiprimes near 2^50 and 2^64.
    for (const std::uint64_t x : {561ull, 41041ull, 825265ull, 3215031751ull, 3474749660383ull,
                                  341550071728321ull, 3825123056546413051ull, 1125899906842597ull * 3,
                                  33554393ull * 33554393ull, 4294967291ull * 4294967279ull}) {
        EXPECT_FALSE(is_prime(x)) << x;
    }
    // The largest primes below 2^50 and 2^64.
    EXPECT_TRUE(is_prime((std::uint64_t{1} << 50) - 27));
    EXPECT_TRUE(is_prime(std::numeric_limits<std::uint64_t>::max() - 58));
    EXPECT_FALSE(is_prime(std::numeric_limits<std::uint64_t>::max()));
}

TEST(Primes, BelowGivesTheLargestOnes) {
    for (const std::uint64_t n : {8ull, 1024ull, 131072ull}) {
        for (const int bits : {25, 36, 50}) {
            const std::vector<std::uint64_t> found = primes_below(n, bits, 3);
            std::vector<std::uint64_t> expected;
            const std::uint64_t limit = std::uint64_t{1} << bits;
            for (std::uint64_t x = limit - 2 * n + 1; expected.size() < 3; x -= 2 * n) {
                if (is_prime(x)) expected.push_back(x);
            }
            EXPECT_EQ(found, expected);
        }
    }
}

TEST(Primes, NearGivesTheNearestOnEitherSide) {
    const std::uint64_t n = 1024;
    for (const double target : {0x1p30, 0x1p30 + 12345.0, 0x1p45 - 1.0, 0x1p50}) {
        std::vector<std::uint64_t> expected;
        const auto centre = static_cast<std::uint64_t>(target);
        for (std::uint64_t k = (centre - 2000000) / (2 * n); k * 2 * n + 1 < centre + 2000000; ++k) {
            const std::uint64_t x = k * 2 * n + 1;
            if (x < (std::uint64_t{1} << 50) && is_prime(x)) expected.push_back(x);
        }
        const auto distance = [target](std::uint64_t x) { return std::abs(static_cast<double>(x) - target); };
        std::sort(expected.begin(), expected.end(),
                  [&](auto a, auto b) { return distance(a) < distance(b); });
        expected.resize(6);
        EXPECT_EQ(primes_near(n, target, 6), expected) << target;
    }
}

TEST(Primes, LeavesOutTheExcluded) {
    const std::vector<std::uint64_t> all = primes_below(4096, 45, 5);
    const std::vector<std::uint64_t> rest = primes_below(4096, 45, 3, {all[0], all[2]});
    EXPECT_EQ(rest, (std::vector<std::uint64_t>{all[1], all[3], all[4]}));
    const std::vector<std::uint64_t> near = primes_near(4096, 0x1p45, 2);
    EXPECT_EQ(primes_near(4096, 0x1p45, 1, {near[0]})[0], near[1]);
}

TEST(Primes, RejectsBadArguments) {
    EXPECT_THROW(primes_below(1000, 40, 1), std::invalid_argument);
    EXPECT_THROW(primes_below(4, 40, 1), std::invalid_argument);
    EXPECT_THROW(primes_below(1 << 18, 40, 1), std::invalid_argument);
    EXPECT_THROW(primes_below(1024, 51, 1), std::invalid_argument);
    EXPECT_THROW(primes_below(1024, 1, 1), std::invalid_argument);
    EXPECT_THROW(primes_below(1024, 40, -1), std::invalid_argument);
    EXPECT_THROW(primes_below(1024, 12, 5), std::invalid_argument);  // 12289 is above 2^12
    EXPECT_THROW(primes_near(1024, 0x1p51, 1), std::invalid_argument);
    EXPECT_THROW(primes_near(1024, std::nan(""), 1), std::invalid_argument);
    EXPECT_TRUE(primes_below(1024, 40, 0).empty());
}

TEST(Primes, FewSmallPrimesAreAllFoundBeforeGivingUp) {
    // 17, 97, 113 and 193 are the primes = 1 mod 16 below 2^8 (with 241).
    EXPECT_EQ(primes_below(8, 8, 5), (std::vector<std::uint64_t>{241, 193, 113, 97, 17}));
    EXPECT_THROW(primes_below(8, 8, 6), std::invalid_argument);
    EXPECT_EQ(primes_near(8, 17.0, 1), std::vector<std::uint64_t>{17});
}

}  // namespace
}  // namespace cipherblas
