// How operands are cut into digits so that products in float64 are exact.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cipherblas::gemm {

inline constexpr int kMaxParts = 3;

// x = sum_i digit_i 2^(i width): balanced digits, |digit_i| <= largest.
struct Digits {
    int parts = 1;
    int width = 0;
    std::uint64_t largest = 0;
};

// Integers up to `magnitude` cut into so many digits of equal width; one digit is the integer itself.
Digits digits_of(std::uint64_t magnitude, int parts);

struct Splitting {
    Digits a, b;
    std::size_t depth = 0;  // products that may be added up exactly: depth |a| |b| <= 2^53
    double cost = 0;        // in float64 products of that shape; infinite where nothing fits
};

// The cheapest splitting of operands with these largest magnitudes, both below 2^50, for sums of k products.
Splitting plan_splitting(std::uint64_t magnitude_a, std::uint64_t magnitude_b, std::size_t k);

}  // namespace cipherblas::gemm
