// Division with rounding by the product of the dropped limbs: ModDown, rescale, and both merged.
#pragma once
#include <cstdint>
#include <vector>

#include "ring/pool.h"
#include "rlwe/context.h"

namespace cipherblas {

// How many of `limbs` limbs a worker converts together: the sources of a base conversion are then read from the outer
// caches once per group instead of once per limb.
int limbs_per_group(std::size_t n, int limbs, int sources);
// Whether that is one: then the overflow is better counted beforehand.
bool converts_one_by_one(std::size_t n, int sources);

// Dropped limbs of `rows` polynomials, ready to be converted: dropped[row * conversion.count() + i], of source i, in NTT form.
class DroppedRows {
  public:
    DroppedRows(const Context& context, const BaseConversion& conversion, std::size_t rows,
                const std::uint64_t* const* dropped);

    bool together() const { return together_; }
    const std::uint64_t* block(std::size_t row) const { return coefficients_.words() + row * count_ * n_; }
    const std::uint64_t* overflow(std::size_t row) const {  // null: counted by the conversion
        return counts_ ? overflow_.words() + row * n_ : nullptr;
    }
    // out[i] = the negative of what ModDown subtracts from a row at limbs[i], its NTT begun.
    void convert(std::size_t row, const std::vector<int>& limbs, std::uint64_t* const* out) const;

  private:
    const BaseConversion* conversion_;
    std::size_t n_, count_;
    bool together_, counts_;
    Buffer coefficients_, overflow_;
};

// out = (x - [x]_D) / D = round(x / D) for `rows` polynomials, D the product of the conversion's sources.
// dropped[row * conversion.count() + i]: limb of source i; kept[row * kept_limbs + j] and out[...]: limb q_j; all in
// NTT form. out may be kept.
void mod_down(const Context& context, const BaseConversion& conversion, int rows, int kept_limbs,
              const std::uint64_t* const* dropped, const std::uint64_t* const* kept,
              std::uint64_t* const* out);

}  // namespace cipherblas
