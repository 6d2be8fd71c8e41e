// With z = zeta^(5^j) and i = z^(N/2), m(z) = sum_{k < N/2} (m_k + i m_{k + N/2}) z^k: a transform of length N/2 over
// the roots zeta^(5^j), which splits like a radix-2 FFT because 5^(j + S/2) = 5^j + N/2 mod N (Cheon et al. 2018).
#include "ckks/encoder.h"

#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <stdexcept>
#include <string>

#include "ring/pool.h"
#include "ring/samplers.h"

namespace cipherblas {
namespace {

// (x, y) <- (x + w y, x - w y) for h pairs at distance h.
void forward_stage(double* re, double* im, const double* wr, const double* wi, std::size_t h) {
    double* const yr = re + h;
    double* const yi = im + h;
    for (std::size_t j = 0; j < h; ++j) {
        const double tr = yr[j] * wr[j] - yi[j] * wi[j];
        const double ti = yr[j] * wi[j] + yi[j] * wr[j];
        yr[j] = re[j] - tr;
        yi[j] = im[j] - ti;
        re[j] += tr;
        im[j] += ti;
    }
}

// (x, y) <- (x + y, (x - y) / w)
void inverse_stage(double* re, double* im, const double* wr, const double* wi, std::size_t h) {
    double* const yr = re + h;
    double* const yi = im + h;
    for (std::size_t j = 0; j < h; ++j) {
        const double tr = re[j] - yr[j];
        const double ti = im[j] - yi[j];
        re[j] += yr[j];
        im[j] += yi[j];
        yr[j] = tr * wr[j] + ti * wi[j];
        yi[j] = ti * wr[j] - tr * wi[j];
    }
}

// x rounded to an integer, ties to even, as nearbyint does, which is a call where there is no instruction for it.
double nearest_integer(double x) {
    constexpr double kAllIntegers = 0x1p52;  // numbers from here on
    const double shift = std::copysign(kAllIntegers, x);
    return std::fabs(x) < kAllIntegers ? (x + shift) - shift : x;
}

// coefficients[i] = round(x[order[i]] · factor); whether all of them are finite and below 2^62.
template <typename Round>
bool round_all(const double* x, const std::vector<std::uint32_t>& order, double factor, const Round& round,
               std::int64_t* coefficients) {
    constexpr double kLimit = 0x1p62;
    bool fits = true;
    for (std::size_t i = 0; i < order.size(); ++i) {
        const double value = round(x[order[i]] * factor, i);
        const bool fits_here = std::fabs(value) < kLimit;  // false for NaN
        coefficients[i] = fits_here ? static_cast<std::int64_t>(value) : 0;
        fits = fits && fits_here;
    }
    return fits;
}

}  // namespace

std::shared_ptr<const Encoder> Encoder::of_degree(std::size_t n) {
    static std::mutex lock;
    static std::map<std::size_t, std::shared_ptr<const Encoder>> made;
    if (!std::has_single_bit(n) || n < 8 || n > (std::size_t{1} << 17)) {
        throw std::invalid_argument("ring degree: expected a power of two from 8 to 131072, got " +
                                    std::to_string(n));
    }
    const std::lock_guard<std::mutex> guard(lock);
    auto& entry = made[n];
    if (!entry) entry = std::make_shared<const Encoder>(n);
    return entry;
}

Encoder::Encoder(std::size_t n)
    : slots_(n / 2), cosine_(slots_ + 1), sine_(slots_ + 1), bit_reversal_(slots_) {
    const auto root = [&](std::size_t k, std::size_t half_turn) {  // exp(i pi k / half_turn)
        const double angle = std::numbers::pi * static_cast<double>(k) / static_cast<double>(half_turn);
        return std::complex<double>(std::cos(angle), std::sin(angle));
    };
    for (std::size_t length = 2; length <= slots_; length *= 2) {
        std::size_t power = 1;
        for (std::size_t j = 0; j < length / 2; ++j) {
            // The root of order 4 length to the power 5^j, brought to (-pi, pi].
            const std::complex<double> w = power <= 2 * length
                                               ? root(power, 2 * length)
                                               : std::conj(root(4 * length - power, 2 * length));
            cosine_[length / 2 + j] = w.real();
            sine_[length / 2 + j] = w.imag();
            power = power * 5 % (4 * length);
        }
    }
    const int bits = std::countr_zero(slots_);
    for (std::size_t i = 0; i < slots_; ++i) {
        std::size_t reversed = 0;
        for (int b = 0; b < bits; ++b) reversed |= (i >> b & 1) << (bits - 1 - b);
        bit_reversal_[i] = static_cast<std::uint32_t>(reversed);
    }
}

void Encoder::encode(const std::complex<double>* values, std::size_t count, double scale,
                     std::int64_t* coefficients, std::uint64_t dither) const {
    if (count > slots_) {
        throw std::invalid_argument("values: expected at most " + std::to_string(slots_) + " slots, got " +
                                    std::to_string(count));
    }
    if (!std::isfinite(scale) || scale <= 0) {
        throw std::invalid_argument("scale: expected a positive number, got " + std::to_string(scale));
    }
    const Buffer workspace(2 * slots_ * sizeof(double));
    double* const re = static_cast<double*>(workspace.data());
    double* const im = re + slots_;
    for (std::size_t j = 0; j < slots_; ++j) {
        re[j] = j < count ? values[j].real() : 0.0;
        im[j] = j < count ? values[j].imag() : 0.0;
    }
    for (std::size_t length = slots_; length >= 2; length /= 2) {
        const std::size_t h = length / 2;
        for (std::size_t i = 0; i < slots_; i += length)
            inverse_stage(re + i, im + i, &cosine_[h], &sine_[h], h);
    }
    const double factor = scale / static_cast<double>(slots_);
    bool fits = true;
    for (const std::size_t first : {std::size_t{0}, slots_}) {
        const auto nearest = [](double x, std::size_t) { return nearest_integer(x); };
        const auto by_chance = [=](double x, std::size_t i) {
            return round_by_chance(x, dither + static_cast<std::uint64_t>(first + i) * 0x9e3779b97f4a7c15u);
        };
        const double* const x = re + first;
        std::int64_t* const out = coefficients + first;
        const bool fit = dither == 0 ? round_all(x, bit_reversal_, factor, nearest, out)
                                     : round_all(x, bit_reversal_, factor, by_chance, out);
        fits = fits && fit;
    }
    if (!fits) {
        double largest = 0.0;
        for (std::size_t j = 0; j < count; ++j) {
            const double size = std::abs(values[j]);
            largest = size >= 0 && largest >= size ? largest : size;
        }
        throw std::invalid_argument("values: expected finite coefficients below 2^62, got values up to " +
                                    std::to_string(largest) + " at scale " + std::to_string(scale));
    }
}

void Encoder::decode(const double* coefficients, std::complex<double>* values) const {
    const Buffer workspace(2 * slots_ * sizeof(double));
    double* const re = static_cast<double*>(workspace.data());
    double* const im = re + slots_;
    for (std::size_t i = 0; i < slots_; ++i) {
        re[i] = coefficients[bit_reversal_[i]];
        im[i] = coefficients[bit_reversal_[i] + slots_];
    }
    for (std::size_t length = 2; length <= slots_; length *= 2) {
        const std::size_t h = length / 2;
        for (std::size_t i = 0; i < slots_; i += length)
            forward_stage(re + i, im + i, &cosine_[h], &sine_[h], h);
    }
    for (std::size_t j = 0; j < slots_; ++j) values[j] = {re[j], im[j]};
}

}  // namespace cipherblas
