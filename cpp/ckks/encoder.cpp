// With z = zeta^(5^j) and i = z^(N/2), m(z) = sum_{k < N/2} (m_k + i m_{k + N/2}) z^k: a transform of length N/2 over
// the roots zeta^(5^j), which splits like a radix-2 FFT because 5^(j + S/2) = 5^j + N/2 mod N (Cheon et al. 2018).
#include "ckks/encoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <stdexcept>
#include <string>

#include "ckks/kernels.h"
#include "ring/pool.h"

namespace cipherblas {
namespace {

// The coefficients of the encoding of real slots, which X -> 1 / X leaves as it is, from the first half of them.
void complete_real(std::int64_t* coefficients, std::size_t n) {
    coefficients[n / 2] = 0;
    for (std::size_t k = 1; k < n / 2; ++k) coefficients[n - k] = -coefficients[k];
}

// Room for the parts of slots. They are read and written side by side: not a multiple of a page apart, so that no load waits
// for a store whose address looks the same, and both do not crowd the same sets of a cache.
class Workspace {
  public:
    explicit Workspace(std::size_t slots) : slots_(slots), buffer_((2 * slots + kApart) * sizeof(double)) {}
    double* re() const { return static_cast<double*>(buffer_.data()); }
    double* im() const { return re() + slots_ + kApart; }

  private:
    static constexpr std::size_t kApart = 256;
    std::size_t slots_;
    Buffer buffer_;
};

// The parts of slots; whether all of them are real.
bool split(const std::complex<double>* values, std::size_t count, double* re, double* im) {
    std::uint64_t imaginary = 0;  // the bits of all imaginary parts but their signs
    for (std::size_t j = 0; j < count; ++j) {
        re[j] = values[j].real();
        im[j] = values[j].imag();
        imaginary |= std::bit_cast<std::uint64_t>(im[j]) << 1;
    }
    return imaginary == 0;
}

bool split(const double* values, std::size_t count, double* re, double* im) {
    std::copy_n(values, count, re);
    std::fill_n(im, count, 0.0);
    return true;
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
    encode_slots(values, count, scale, coefficients, dither);
}

void Encoder::encode(const double* values, std::size_t count, double scale, std::int64_t* coefficients,
                     std::uint64_t dither) const {
    encode_slots(values, count, scale, coefficients, dither);
}

template <typename Slot>
void Encoder::encode_slots(const Slot* values, std::size_t count, double scale, std::int64_t* coefficients,
                           std::uint64_t dither) const {
    if (count > slots_) {
        throw std::invalid_argument("values: expected at most " + std::to_string(slots_) + " slots, got " +
                                    std::to_string(count));
    }
    if (!std::isfinite(scale) || scale <= 0) {
        throw std::invalid_argument("scale: expected a positive number, got " + std::to_string(scale));
    }
    const Workspace workspace(slots_);
    double* const re = workspace.re();
    double* const im = workspace.im();
    const bool real = split(values, count, re, im);
    std::fill(re + count, re + slots_, 0.0);
    std::fill(im + count, im + slots_, 0.0);
    const double factor = scale / static_cast<double>(slots_);
    const bool fits = embedding_kernels().encode(table(), re, im, factor, dither, coefficients);
    if (!fits) {
        double largest = 0.0;
        for (std::size_t j = 0; j < count; ++j) {
            const double size = std::abs(values[j]);
            largest = size >= 0 && largest >= size ? largest : size;
        }
        throw std::invalid_argument("values: expected finite coefficients below 2^62, got values up to " +
                                    std::to_string(largest) + " at scale " + std::to_string(scale));
    }
    if (real && dither == 0) complete_real(coefficients, 2 * slots_);
}

void Encoder::decode(const double* coefficients, std::complex<double>* values) const {
    const Workspace workspace(slots_);
    embedding_kernels().decode(table(), coefficients, workspace.re(), workspace.im(), values);
}

}  // namespace cipherblas
