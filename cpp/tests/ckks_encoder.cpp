// The canonical embedding against its definition.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>

#include "ckks/encoder.h"
#include "ckks/kernels/tables.h"
#include "rlwe/encryption.h"
#include "valgrind.h"

namespace cipherblas {
namespace {

using Complex = std::complex<double>;

TEST(Encoder, DecodesToTheValuesAtTheRoots) {
    for (const std::size_t n : {8u, 64u, 1024u}) {
        const auto encoder = Encoder::of_degree(n);
        std::mt19937_64 random(n);
        std::normal_distribution<double> normal;
        std::vector<double> m(n);
        for (double& x : m) x = normal(random);
        std::vector<Complex> slots(n / 2);
        encoder->decode(m.data(), slots.data());
        std::size_t power = 1;  // 5^j
        for (std::size_t j = 0; j < n / 2; ++j) {
            std::complex<long double> value = 0;
            for (std::size_t k = 0; k < n; ++k) {
                const long double angle = 3.141592653589793238462643383279502884L *
                                          static_cast<long double>(power * k % (2 * n)) /
                                          static_cast<long double>(n);
                value += static_cast<long double>(m[k]) * std::polar(1.0L, angle);
            }
            const Complex expected(static_cast<double>(value.real()), static_cast<double>(value.imag()));
            EXPECT_LT(std::abs(slots[j] - expected), 1e-14 * std::sqrt(static_cast<double>(n)) * 10) << j;
            power = power * 5 % (2 * n);
        }
    }
}

TEST(Encoder, InvertsWithinRounding) {
    constexpr std::size_t n = 1 << 14;
    const auto encoder = Encoder::of_degree(n);
    std::mt19937_64 random(3);
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::vector<Complex> values(n / 2), got(n / 2);
    for (Complex& v : values) v = {uniform(random), uniform(random)};
    std::vector<std::int64_t> coefficients(n);
    const double scale = 0x1p55;
    encoder->encode(values.data(), values.size(), scale, coefficients.data());
    std::vector<double> real(n);
    for (std::size_t i = 0; i < n; ++i) real[i] = static_cast<double>(coefficients[i]) / scale;
    encoder->decode(real.data(), got.data());
    for (std::size_t j = 0; j < n / 2; ++j) EXPECT_LT(std::abs(got[j] - values[j]), 2e-14) << j;
}

std::vector<Complex> random_slots(std::size_t count, double size, bool real, std::mt19937_64& random) {
    std::uniform_real_distribution<double> uniform(-size, size);
    std::vector<Complex> values(count);
    for (Complex& v : values) v = {uniform(random), real ? 0.0 : uniform(random)};
    return values;
}

// Both bit for bit, coefficients beyond what single instructions round included.
TEST(Encoder, EqualsTheScalarTransforms) {
    const EmbeddingKernels& scalar = *scalar_embedding();
    std::mt19937_64 random(7);
    for (std::size_t n = 8; n <= (testing::kWatched ? 1u << 12 : 1u << 17); n *= 2) {
        const auto encoder = Encoder::of_degree(n);
        const std::size_t slots = n / 2;
        for (const double scale : {1.0, 0x1p40, 0x1p53, 0x1p60}) {
            for (const std::uint64_t dither : {0u, 77u}) {
                const std::vector<Complex> values = random_slots(slots, 1.0, false, random);
                std::vector<double> re(slots), im(slots);
                for (std::size_t j = 0; j < slots; ++j) {
                    re[j] = values[j].real();
                    im[j] = values[j].imag();
                }
                std::vector<std::int64_t> expected(n), got(n);
                ASSERT_TRUE(scalar.encode(encoder->table(), re.data(), im.data(),
                                          scale / static_cast<double>(slots), dither, expected.data()));
                encoder->encode(values.data(), slots, scale, got.data(), dither);
                ASSERT_EQ(got, expected) << n << " scale " << scale << " dither " << dither;
            }
        }
        std::vector<double> coefficients(n), re(slots), im(slots);
        std::normal_distribution<double> normal;
        for (double& x : coefficients) x = normal(random);
        std::vector<Complex> expected(slots), got(slots);
        scalar.decode(encoder->table(), coefficients.data(), re.data(), im.data(), expected.data());
        encoder->decode(coefficients.data(), got.data());
        ASSERT_EQ(got, expected) << n;
    }
}

TEST(Encoder, RealSlotsAreSymmetric) {
    std::mt19937_64 random(11);
    for (const std::size_t n : {8u, 64u, 4096u}) {
        const auto encoder = Encoder::of_degree(n);
        const std::size_t count = n / 2 - 1;  // the last slot is 0
        const std::vector<Complex> values = random_slots(count, 1.0, true, random);
        std::vector<double> real(count);
        for (std::size_t j = 0; j < count; ++j) real[j] = values[j].real();
        std::vector<std::int64_t> got(n), of_real(n), general(n);
        encoder->encode(values.data(), count, 0x1p50, got.data());
        encoder->encode(real.data(), count, 0x1p50, of_real.data());
        EXPECT_EQ(of_real, got);
        EXPECT_TRUE(is_symmetric(got.data(), n));
        // Beside what the transform of complex slots gives, before anything is completed: a rounding apart.
        std::vector<double> re(n / 2), im(n / 2);
        std::copy(real.begin(), real.end(), re.begin());
        ASSERT_TRUE(embedding_kernels().encode(encoder->table(), re.data(), im.data(),
                                               0x1p50 / static_cast<double>(n / 2), 0, general.data()));
        for (std::size_t k = 0; k < n; ++k) EXPECT_LE(std::abs(got[k] - general[k]), 4) << k;
        encoder->encode(real.data(), count, 0x1p50, of_real.data(), 5);
        EXPECT_EQ(is_symmetric(of_real.data(), n), n == 8);  // rounded by chance
        for (std::size_t k = 0; k < n; ++k) EXPECT_LE(std::abs(of_real[k] - general[k]), 1) << k;
    }
}

TEST(Encoder, RefusesWhatDoesNotFit) {
    const auto encoder = Encoder::of_degree(16);
    std::vector<std::int64_t> coefficients(16);
    std::vector<Complex> values(8, Complex(NAN, 0));
    EXPECT_THROW(encoder->encode(values.data(), 8, 1.0, coefficients.data()), std::invalid_argument);
    values.assign(8, Complex(1, 0));
    EXPECT_THROW(encoder->encode(values.data(), 8, 0x1p62, coefficients.data()), std::invalid_argument);
    const std::vector<double> real(8, INFINITY);
    EXPECT_THROW(encoder->encode(real.data(), 8, 1.0, coefficients.data()), std::invalid_argument);
    EXPECT_THROW(encoder->encode(values.data(), 9, 1.0, coefficients.data()), std::invalid_argument);
    EXPECT_THROW(Encoder::of_degree(12), std::invalid_argument);
}

}  // namespace
}  // namespace cipherblas
