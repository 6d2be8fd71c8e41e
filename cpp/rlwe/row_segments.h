// What the encryption and decryption of rows share: their segments, and the memory of a thread.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "arith/modulus.h"
#include "ring/pool.h"
#include "rlwe/coefficient_rows.h"

namespace cipherblas {

inline std::size_t padded(std::size_t count) { return (count + 7) / 8 * 8; }

// The workspace of one thread: a few vectors of N words, and one of the width of a row.
class Workspaces {
  public:
    Workspaces(int threads, std::size_t vectors, std::size_t n, std::size_t width)
        : n_(n),
          vectors_(vectors),
          words_(vectors * n + padded(width)),
          buffer_(Buffer::of_words(threads, words_)) {}
    std::uint64_t* vector(int thread, std::size_t i) const {
        return buffer_.words() + static_cast<std::size_t>(thread) * words_ + i * n_;
    }
    std::int64_t* row(int thread) const { return reinterpret_cast<std::int64_t*>(vector(thread, vectors_)); }

  private:
    std::size_t n_, vectors_, words_;
    Buffer buffer_;
};

struct Segment {
    std::size_t index, begin, count, stride;  // the entries [begin, begin + count) of a row
};

inline Segment segment_of(const RowLayout& layout, std::size_t index) {
    const std::size_t begin = index * layout.n;
    const std::size_t count = std::min(layout.n, layout.width - begin);
    return {index, begin, count, layout.n / std::bit_ceil(count)};
}

// Coefficients of X^(j stride), moved to the front.
inline void gather(std::uint64_t* x, const Segment& segment) {
    if (segment.stride == 1) return;
    for (std::size_t j = 1; j < segment.count; ++j) x[j] = x[j * segment.stride];
}

// Whether every message fits the signed words of from_signed, with room for the noise.
inline bool fits_words(const RowMessages& messages, std::size_t count) {
    constexpr double kLargest = 0x1p61;
    double largest = 0.0;
    for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(messages.matrix[i]));
    return largest * std::abs(messages.scale) < kLargest;
}

// Products with w modulo q by Shoup's quotient floor(w 2^64 / q), of any word: the estimate is at most one too small.
class ShoupFactor {
  public:
    ShoupFactor(std::uint64_t w, std::uint64_t q)
        : w_(w), q_(q), quotient_(static_cast<std::uint64_t>((static_cast<u128>(w) << 64) / q)) {}

    std::uint64_t times(std::uint64_t x) const {
        const std::uint64_t estimate = static_cast<std::uint64_t>((static_cast<u128>(x) * quotient_) >> 64);
        const std::uint64_t residue = x * w_ - estimate * q_;
        return residue >= q_ ? residue - q_ : residue;
    }

  private:
    std::uint64_t w_, q_, quotient_;
};

}  // namespace cipherblas
