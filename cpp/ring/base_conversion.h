// Exact, centred conversion of residues from some primes of a basis to its other primes.
//
// x in [0, D), D = prod d_i, is represented by y_i = x_i * (D / d_i)^-1 mod d_i: x = sum_i y_i (D / d_i) - v D with
// v = floor(1/2 + sum_i y_i / d_i) is its centred representative, |x| <= D/2 (Halevi, Polyakov, Shoup 2018, eq. 2).
// Of a single source no overflow is counted: y = (x + h) mod d with h = floor(d/2), and x = y - v h is centred for v = 1.
#pragma once
#include <cstdint>
#include <vector>

#include "ring/basis.h"
#include "ring/kernels.h"

namespace cipherblas {

// A limb in NTT form, or the product of two of them; or its negative; times a factor, a residue.
struct LimbSource {
    const std::uint64_t* a;
    const std::uint64_t* b = nullptr;
    bool negated = false;
    std::uint64_t factor = 1;
};

class BaseConversion {
  public:
    static constexpr int kMaxSources = 64;

    // Sources are positions in the basis. Throws std::invalid_argument unless there are 1 to 64.
    BaseConversion(const Basis& basis, std::vector<int> sources);

    int count() const { return static_cast<int>(sources_.size()); }
    int source(int i) const { return sources_[static_cast<std::size_t>(i)]; }
    const std::vector<int>& sources() const { return sources_; }

    // D and D^-1 modulo the basis prime at this position (the inverse is 0 at a source).
    std::uint64_t product(int target) const { return products_[static_cast<std::size_t>(target)]; }
    std::uint64_t inverse(int target) const { return inverses_[static_cast<std::size_t>(target)]; }

    // The y_i of one polynomial are a block of count() * n words: limb after limb, or, where many targets are made
    // together, in pieces of all limbs that stay in the first-level cache meanwhile.

    // y_i into its block, from limb i in NTT form (which may be limb i of the block unless together). scratch: n words.
    void prepare(std::uint64_t* block, int i, const LimbSource& limb, bool together,
                 std::uint64_t* scratch) const;
    // The same from the coefficients of limb i, into a block that is not together.
    void prepare_coefficients(std::uint64_t* block, int i, const std::uint64_t* x) const;
    // The v of `length` coefficients from `offset` on, of a block that is not together.
    void overflow(std::uint64_t* v, const std::uint64_t* block, std::size_t offset, std::size_t length) const;
    // out[t] = x mod the prime at position targets[t], for all t; targets are not sources. The NTT of out[t] is begun:
    // Kernels::ntt_part goes on with it. v may be null: it is then counted on the way, which costs little where the
    // targets are many.
    void convert(std::uint64_t* const* out, const int* targets, int target_count, const std::uint64_t* block,
                 bool together, const std::uint64_t* v) const;
    // The same for a single source near the targets, where convert_half is possible: one target, and one half (0 or 1) of its
    // parts, which lies at out alone.
    bool converts_halves(const int* targets, int target_count) const;
    void convert_half(std::uint64_t* out, int target, const std::uint64_t* block, int half) const;
    // out = x mod the prime at position `target`, by coefficients, of a block that is not together.
    void convert_coefficients(std::uint64_t* out, int target, const std::uint64_t* block,
                              const std::uint64_t* v) const;

  private:
    bool needs_overflow(const int* targets, int target_count) const;
    PieceLayout layout(bool together) const;

    const Basis* basis_;
    std::vector<int> sources_;
    std::vector<std::uint64_t> digit_factors_;  // (D / d_i)^-1 mod d_i
    std::vector<double> reciprocals_;
    std::vector<std::uint64_t> factors_;  // [target][source]: D / d_i, and last that of v, in Montgomery form
    std::vector<std::uint64_t> products_, inverses_;
};

}  // namespace cipherblas
