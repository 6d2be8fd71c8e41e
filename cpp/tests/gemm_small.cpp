// Products of small integers and residues: the exact paths against the definition, the rounded one against its bound.
#include <gtest/gtest.h>

#include <cmath>

#include "gemm/byte_gemm.h"
#include "gemm/kernels.h"
#include "gemm/reference.h"
#include "gemm/rounding.h"
#include "gemm/splitting.h"
#include "gemm_support.h"
#include "valgrind.h"

namespace cipherblas::testing {
namespace {

class SmallGemm : public ::testing::Test {
  protected:
    static void SetUpTestSuite() { load_blas(); }
    std::mt19937_64 random{5};

    template <typename T>
    Matrix<T> integers(std::size_t rows, std::size_t cols, std::int64_t most, Layout layout = Layout::kRows) {
        Matrix<T> u(rows, cols, layout);
        const auto range = static_cast<std::uint64_t>(2 * most + 1);
        fill(u, [&](std::size_t, std::size_t) {
            return random() % 5 == 0 ? -most : static_cast<std::int64_t>(random() % range) - most;
        });
        return u;
    }
    Residues residues(std::size_t rows, std::size_t cols, std::uint64_t q, Layout layout = Layout::kRows) {
        Residues b(rows, cols, layout);
        fill(b, [&](std::size_t, std::size_t) { return random() % 5 == 0 ? q / 2 : random() % q; });
        return b;
    }
};

template <typename T>
void expect_exact(const Matrix<T>& u, const Residues& b, std::uint64_t q) {
    Target want(u.rows, b.cols);
    gemm::reference_gemm(u.view(), b.view(), want.span(), Modulus(q), false);
    for (const Path path : {Path::kAuto, Path::kScalar, Path::kIfma, Path::kStrassen, Path::kStrassen2,
                            Path::kNarrow, Path::kBytes, Path::kExact}) {
        if (!gemm::path_available(path)) continue;
        if (path == Path::kBytes && (gemm::signed_bytes(u.item(), gemm::largest_magnitude(u.view())) == 0 ||
                                     q < gemm::kLeastByteModulus))
            continue;
        if (path == Path::kNarrow &&
            (gemm::largest_magnitude(u.view()) > gemm::kNarrowOffset || q >> 36 != 0))
            continue;
        Target got(u.rows, b.cols);
        gemm::small_gemm(u.view(), b.view(), got.span(), q, gemm::largest_magnitude(u.view()), path, false);
        ASSERT_EQ(got.storage, want.storage)
            << "path " << static_cast<int>(path) << ", item " << static_cast<int>(u.item()) << " mod " << q;
    }
}

TEST_F(SmallGemm, TheReferenceIsTheDefinition) {
    const std::uint64_t q = modulus_of(50);
    const Matrix<std::int64_t> u = integers<std::int64_t>(3, 7, std::int64_t{1} << 60);
    const Residues b = residues(7, 4, q);
    Target got(3, 4);
    gemm::reference_gemm(u.view(), b.view(), got.span(), Modulus(q), false);
    for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < 4; ++j) {
            __int128 sum = 0;
            for (std::size_t p = 0; p < 7; ++p)
                sum += static_cast<__int128>(u.at(i, p)) * static_cast<std::int64_t>(b.at(p, j));
            const auto modulus = static_cast<std::int64_t>(q);
            EXPECT_EQ(static_cast<std::int64_t>(got.at(i, j)),
                      static_cast<std::int64_t>((sum % modulus + modulus) % modulus));
        }
    }
}

TEST_F(SmallGemm, EveryTypeAndLayout) {
    for (const Layout layout : kLayouts) {
        for (const int bits : {2, 22, 36, 50}) {
            const std::uint64_t q = modulus_of(bits);
            const Residues b = residues(45, 31, q, layout);
            expect_exact(integers<std::int8_t>(10, 45, 127, layout), b, q);
            expect_exact(integers<std::int16_t>(10, 45, 32767, layout), b, q);
            expect_exact(integers<std::int32_t>(10, 45, 2147483647, layout), b, q);
            expect_exact(integers<std::int64_t>(10, 45, INT64_MAX / 2, layout), b, q);
            expect_exact(integers<double>(10, 45, (std::int64_t{1} << 53) - 1, layout), b, q);
        }
    }
}

TEST_F(SmallGemm, TheLeastIntegers) {
    const std::uint64_t q = modulus_of(50);
    Matrix<std::int8_t> bytes(2, 3000);
    fill(bytes, [](std::size_t, std::size_t) { return -128; });
    Matrix<std::int64_t> words(2, 3000);
    fill(words, [](std::size_t, std::size_t) { return INT64_MIN; });
    const Residues b = residues(3000, 5, q);
    EXPECT_EQ(gemm::largest_magnitude(bytes.view()), 128u);
    EXPECT_EQ(gemm::largest_magnitude(words.view()), std::uint64_t{1} << 63);
    expect_exact(bytes, b, q);
    expect_exact(words, b, q);
}

// Bytes as large as they may be, of one sign, on more than is packed at a time; shapes around those of a tile.
TEST_F(SmallGemm, BytesAtTheirLimits) {
    for (const std::uint64_t q : {std::uint64_t{257}, modulus_of(16), modulus_of(33), modulus_of(50)}) {
        if (kWatched && q != 257 && q >> 40 == 0) continue;
        for (const std::size_t k : {std::size_t{1}, gemm::kByteDepth + 1, gemm::kBytesDepth + 3}) {
            for (const std::size_t rows : {gemm::kByteRows - 1, gemm::kByteRows + 1}) {
                Matrix<std::int8_t> bytes(rows, k);
                fill(bytes, [](std::size_t i, std::size_t) { return i % 2 == 0 ? -128 : 127; });
                Matrix<std::int16_t> two(rows, k);
                const auto most = static_cast<std::int64_t>(gemm::kTwoBytes);
                fill(two, [&](std::size_t i, std::size_t) { return i % 2 == 0 ? -most : most; });
                Residues b(k, gemm::kByteCols + 1);
                fill(b, [&](std::size_t, std::size_t j) {
                    return j % 3 == 0 ? q - 1 : j % 3 == 1 ? q / 2 : 0;
                });
                expect_exact(bytes, b, q);
                expect_exact(two, b, q);
            }
        }
    }
    if (!gemm::path_available(Path::kBytes)) return;
    Target c(1, 1);
    Matrix<std::int16_t> u(1, 1);
    u.at(0, 0) = static_cast<std::int16_t>(gemm::kTwoBytes + 1);
    const Residues b(1, 1);
    EXPECT_THROW(
        gemm::small_gemm(u.view(), b.view(), c.span(), 257, gemm::kTwoBytes + 1, Path::kBytes, false),
        std::invalid_argument);
    EXPECT_THROW(
        gemm::small_gemm(u.view(), b.view(), c.span(), gemm::kLeastByteModulus - 1, 1, Path::kBytes, false),
        std::invalid_argument);
}

// Every splitting is exact at its own limit: all digits as large as they may be, all signs equal.
TEST_F(SmallGemm, SplittingsAtTheirLimits) {
    const std::uint64_t q = modulus_of(50);
    for (const int bits : {1, 4, 7, 15, 20, 31, 40, 49}) {
        const std::uint64_t most = (std::uint64_t{1} << bits) - 1;
        const gemm::Splitting plan = gemm::plan_splitting(most, q / 2, 100000);
        ASSERT_TRUE(std::isfinite(plan.cost)) << bits;
        EXPECT_LE(static_cast<u128>(plan.a.largest) * plan.b.largest * plan.depth, u128{1} << 53);
        const std::size_t k = std::min<std::size_t>(plan.depth + 1, 6000);
        Matrix<std::int64_t> u(2, k);
        fill(u, [&](std::size_t i, std::size_t) {
            return i == 0 ? static_cast<std::int64_t>(most) : -static_cast<std::int64_t>(most);
        });
        Residues b(k, 3);
        fill(b, [&](std::size_t, std::size_t j) { return j == 0 ? q / 2 : j == 1 ? q / 2 + 1 : q - 1; });
        expect_exact(u, b, q);
    }
}

TEST_F(SmallGemm, DigitsAddUpAndAreSmall) {
    for (int parts = 2; parts <= gemm::kMaxParts; ++parts) {
        for (const std::uint64_t most :
             {std::uint64_t{1}, std::uint64_t{255}, std::uint64_t{1} << 24, modulus_of(50) / 2}) {
            const gemm::Digits digits = gemm::digits_of(most, parts);
            std::vector<double> x;
            for (int i = 0; i < 200; ++i)
                x.push_back(static_cast<double>(random() % (2 * most + 1)) - static_cast<double>(most));
            x.push_back(static_cast<double>(most));
            x.push_back(-static_cast<double>(most));
            const std::vector<double> whole = x;
            std::vector<double> sum(x.size(), 0.0);
            double scale = 1;
            for (int i = 0; i < parts; ++i) {
                std::vector<double> high(x.size(), 0.0);
                if (i + 1 < parts) gemm::gemm_kernels().split(x.data(), high.data(), digits.width, x.size());
                for (std::size_t j = 0; j < x.size(); ++j) {
                    EXPECT_LE(std::abs(x[j]), static_cast<double>(digits.largest));
                    sum[j] += scale * x[j];
                }
                scale *= std::ldexp(1.0, digits.width);
                x = high;
            }
            EXPECT_EQ(sum, whole);
        }
    }
}

// The centred difference between the rounded and the exact product.
template <typename T>
std::vector<double> rounding_errors(const Matrix<T>& u, const Residues& b, std::uint64_t q) {
    Target want(u.rows, b.cols);
    gemm::reference_gemm(u.view(), b.view(), want.span(), Modulus(q), false);
    Target got(u.rows, b.cols);
    gemm::small_gemm(u.view(), b.view(), got.span(), q, gemm::largest_magnitude(u.view()), Path::kRounded,
                     false);
    std::vector<double> errors;
    for (std::size_t i = 0; i < u.rows; ++i) {
        for (std::size_t j = 0; j < b.cols; ++j) {
            EXPECT_LT(got.at(i, j), q);
            const std::uint64_t difference = (got.at(i, j) + q - want.at(i, j)) % q;
            errors.push_back(difference > q / 2 ? -static_cast<double>(q - difference)
                                                : static_cast<double>(difference));
        }
    }
    return errors;
}

// Sums that are as large as can be, that change sign at every step, or that rise to the top and come back to nothing.
TEST_F(SmallGemm, TheBoundHoldsForHostileSums) {
    if (!gemm::path_available(Path::kRounded)) GTEST_SKIP() << "no BLAS";
    for (const int bits : {30, 45, 50}) {
        const std::uint64_t q = modulus_of(bits);
        for (const std::int64_t most : {1, 127, 128, 32767, 1 << 30}) {
            for (const std::size_t k : {1u, 5u, 700u, 1024u, 1025u, 5000u}) {
                Matrix<double> u(3, k);
                fill(u, [&](std::size_t i, std::size_t p) {
                    const bool negative = i == 0 ? false : i == 1 ? p % 2 == 1 : p >= k / 2;
                    return negative ? -most : most;
                });
                Residues b(k, 4);
                fill(b, [&](std::size_t p, std::size_t j) {
                    const std::uint64_t values[] = {q / 2, q / 2 - 2 * (p % 7), q / 2 + 1 + p % 3,
                                                    random() % q};
                    return values[j];
                });
                const double bound = gemm::rounded_error(k, static_cast<std::uint64_t>(most), q);
                for (const double error : rounding_errors(u, b, q))
                    EXPECT_LE(std::abs(error), bound) << bits << " bits, |u| " << most << ", k " << k;
            }
        }
    }
}

// On random input the root mean square is what the model says: |u| = max_u throughout, b uniform.
TEST_F(SmallGemm, TheRootMeanSquareIsThatOfTheModel) {
    if (!gemm::path_available(Path::kRounded)) GTEST_SKIP() << "no BLAS";
    const std::uint64_t q = modulus_of(50);
    for (const std::size_t k : {256u, 1024u, 4096u}) {
        Matrix<std::int16_t> u(16, k);
        fill(u, [&](std::size_t, std::size_t) { return random() % 2 == 0 ? 2047 : -2047; });
        Residues b(k, 64);
        fill(b, [&](std::size_t, std::size_t) { return random() % q; });
        double squares = 0;
        for (const double error : rounding_errors(u, b, q)) squares += error * error;
        const double found = std::sqrt(squares / (16 * 64));
        const double model = gemm::rounded_rms(k, 2047, q);
        EXPECT_GT(found, model / 4) << k;
        EXPECT_LT(found, model * 2) << k;
        EXPECT_LT(model, gemm::rounded_error(k, 2047, q));
    }
}

TEST_F(SmallGemm, BoundsInNumbers) {
    // 2^53 = 2 * 2^3 * 2^49: with q / 2 just below 2^49, two products of |u| = 8 are exact, three are not.
    const std::uint64_t q = modulus_of(50);
    EXPECT_EQ(gemm::rounded_error(2, 8, q), 0.0);
    EXPECT_EQ(gemm::rounded_rms(2, 8, q), 0.0);
    EXPECT_NEAR(gemm::rounded_error(3, 8, q), 9 * 8 * static_cast<double>(q / 2) * 0x1p-53, 1e-6);
    // Chunks add up.
    EXPECT_NEAR(gemm::rounded_error(3072, 100, q) / gemm::rounded_error(1024, 100, q), 3.0, 1e-9);
    EXPECT_NEAR(gemm::rounded_rms(4096, 100, q) / gemm::rounded_rms(1024, 100, q), 2.0, 1e-9);
}

TEST_F(SmallGemm, Faults) {
    const Residues b(2, 2);
    Target c(1, 2);
    Matrix<double> u(1, 2);
    for (const double bad : {0.5, std::ldexp(1.0, 53), -std::ldexp(1.0, 60), std::nan(""), HUGE_VAL}) {
        u.at(0, 1) = bad;
        EXPECT_THROW(gemm::largest_magnitude(u.view()), std::invalid_argument) << bad;
    }
    if (!gemm::path_available(Path::kRounded)) return;
    u.at(0, 1) = std::ldexp(1.0, 40);
    EXPECT_THROW(
        gemm::small_gemm(u.view(), b.view(), c.span(), 97, std::uint64_t{1} << 40, Path::kRounded, false),
        std::invalid_argument);
}

}  // namespace
}  // namespace cipherblas::testing
