// The canonical embedding against its definition.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>

#include "ckks/encoder.h"

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

TEST(Encoder, RefusesWhatDoesNotFit) {
    const auto encoder = Encoder::of_degree(16);
    std::vector<std::int64_t> coefficients(16);
    std::vector<Complex> values(8, Complex(NAN, 0));
    EXPECT_THROW(encoder->encode(values.data(), 8, 1.0, coefficients.data()), std::invalid_argument);
    values.assign(8, Complex(1, 0));
    EXPECT_THROW(encoder->encode(values.data(), 8, 0x1p62, coefficients.data()), std::invalid_argument);
    EXPECT_THROW(encoder->encode(values.data(), 9, 1.0, coefficients.data()), std::invalid_argument);
    EXPECT_THROW(Encoder::of_degree(12), std::invalid_argument);
}

}  // namespace
}  // namespace cipherblas
