// Exact, centred conversion of residues from some primes of a basis to its other primes.
//
// x in [0, D), D = prod d_i, is represented by y_i = x_i * (D / d_i)^-1 mod d_i: x = sum_i y_i (D / d_i) - v D with
// v = floor(1/2 + sum_i y_i / d_i) is its centred representative, |x| <= D/2 (Halevi, Polyakov, Shoup 2018, eq. 2).
#pragma once
#include <cstdint>
#include <vector>

#include "ring/basis.h"
#include "ring/kernels.h"

namespace cipherblas {

class BaseConversion {
  public:
    static constexpr int kMaxSources = 64;

    // Sources are positions in the basis. Throws std::invalid_argument unless there are 1 to 64.
    BaseConversion(const Basis& basis, std::vector<int> sources);

    int count() const { return static_cast<int>(sources_.size()); }
    int source(int i) const { return sources_[static_cast<std::size_t>(i)]; }
    const std::vector<int>& sources() const { return sources_; }

    // (D / d_i)^-1 mod d_i, the factor that turns x_i into y_i (in either form, the NTT being linear).
    std::uint64_t digit_factor(int i) const { return digit_factors_[static_cast<std::size_t>(i)]; }
    // D and D^-1 modulo the basis prime at this position (the inverse is 0 at a source).
    std::uint64_t product(int target) const { return products_[static_cast<std::size_t>(target)]; }
    std::uint64_t inverse(int target) const { return inverses_[static_cast<std::size_t>(target)]; }

    // The overflow v of `n` coefficients.
    void overflow(std::uint64_t* v, const std::uint64_t* const* y, std::size_t n) const;
    // out[t] = x mod the prime at position targets[t], for all t at once: the y_i are read once in pieces that stay in the
    // first-level cache. The NTT of out[t] is begun: Kernels::ntt_many goes on with it. Targets are not sources.
    // v may be null: it is then counted on the way, which costs little where there are many targets.
    void convert(std::uint64_t* const* out, const int* targets, int target_count,
                 const std::uint64_t* const* y, const std::uint64_t* v) const;

  private:
    bool centres(const int* targets, int target_count) const;

    const Basis* basis_;
    std::vector<int> sources_;
    std::vector<std::uint64_t> digit_factors_;
    std::vector<double> reciprocals_;
    std::vector<std::uint64_t> factors_;  // [target][source]: D / d_i, and last -D, in Montgomery form
    std::vector<std::uint64_t> products_, inverses_;
};

}  // namespace cipherblas
