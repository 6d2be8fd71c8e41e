// The canonical embedding: N/2 complex slots <-> N real coefficients, slot j at the root zeta^(5^j).
#pragma once
#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

#include "ckks/kernels.h"
#include "ring/aligned.h"

namespace cipherblas {

class Encoder {
  public:
    // The encoder of ring degree n (a power of two, 8 .. 2^17); made once per n. Thread-safe.
    static std::shared_ptr<const Encoder> of_degree(std::size_t n);

    std::size_t slots() const { return slots_; }

    // coefficients = round(scale * embedding^-1(values)), missing values being 0. Throws std::invalid_argument when
    // count > slots, and when a coefficient is not finite or not below 2^62. With a dither other than 0 coefficients are
    // rounded by chance (round_by_chance). Without one, the encoding of real values is as exactly symmetric as it
    // should be: coefficient N - k is the negative of coefficient k.
    void encode(const std::complex<double>* values, std::size_t count, double scale,
                std::int64_t* coefficients, std::uint64_t dither = 0) const;
    void encode(const double* values, std::size_t count, double scale, std::int64_t* coefficients,
                std::uint64_t dither = 0) const;
    // The slots of real coefficients.
    void decode(const double* coefficients, std::complex<double>* values) const;

    explicit Encoder(std::size_t n);

    // What the kernels read of it.
    EmbeddingTable table() const { return {slots_, cosine_.data(), sine_.data(), bit_reversal_.data()}; }

  private:
    template <typename Slot>
    void encode_slots(const Slot* values, std::size_t count, double scale, std::int64_t* coefficients,
                      std::uint64_t dither) const;
    std::size_t slots_;
    // Twiddles of the stage of length len at [len / 2, len): exp(i pi 5^j / (2 len)) for j < len / 2.
    AlignedVector<double> cosine_, sine_;
    std::vector<std::uint32_t> bit_reversal_;
};

}  // namespace cipherblas
