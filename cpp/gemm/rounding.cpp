#include "gemm/rounding.h"

#include <algorithm>
#include <cmath>

namespace cipherblas::gemm {
namespace {

constexpr double kUnit = 0x1p-53;

// max_u and (q - 1) / 2 as doubles, and their product, rounded up.
double largest_product(std::uint64_t max_u, std::uint64_t q) {
    return static_cast<double>(max_u) * static_cast<double>(q / 2) * (1 + 4 * kUnit);
}

}  // namespace

double rounded_error(std::size_t k, std::uint64_t max_u, std::uint64_t q) {
    const double product = largest_product(max_u, q);
    const auto bound = [&](std::size_t count) {
        const double terms = static_cast<double>(count);
        if (terms * product <= 0x1p53) return 0.0;
        const double gamma = terms * kUnit / (1 - terms * kUnit);
        return gamma * terms * product;
    };
    const double whole = static_cast<double>(k / kRoundedDepth) * bound(kRoundedDepth);
    return (whole + bound(k % kRoundedDepth)) * (1 + 8 * kUnit);
}

double rounded_rms(std::size_t k, std::uint64_t max_u, std::uint64_t q) {
    const double product = largest_product(max_u, q);
    const double s = static_cast<double>(max_u) * static_cast<double>(q) / std::sqrt(12.0);
    const auto variance = [&](std::size_t count) {
        const double terms = static_cast<double>(count);
        if (terms * product <= 0x1p53) return 0.0;
        return kUnit * kUnit / 3 * s * s * terms * (terms + 1) / 2;
    };
    return std::sqrt(static_cast<double>(k / kRoundedDepth) * variance(kRoundedDepth) +
                     variance(k % kRoundedDepth));
}

}  // namespace cipherblas::gemm
