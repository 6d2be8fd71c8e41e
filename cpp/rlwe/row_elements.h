// Rows of encrypted matrices, by coefficients, as ring elements in NTT form, and ring elements as rows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rlwe/context.h"
#include "rlwe/views.h"

namespace cipherblas {

// out[row]: [component][limb][N]. Rows of a have N coefficients, those of b `columns`, which divide N: entry j is the
// coefficient of X^(j N / columns), and the coefficients between are 0.
void elements_of_rows(const Context& context, int limbs, std::size_t rows, std::size_t columns,
                      const RowsView& a, const RowsView& b, std::uint64_t* out);

// a [limb][rows][N], b [limb][rows][columns]: the first `held` of the N / columns rows of each element, which follow each
// other; the last element may give fewer. Of row t entry j of b is the coefficient of X^(j N / columns + t'), t' being t
// with its bits in reversed order, and a is X^-t' times that of the element.
struct ElementRows {
    std::size_t rows, columns, held;
};
void rows_of_elements(const Context& context, const std::vector<CiphertextView>& elements,
                      const ElementRows& shape, std::uint64_t* a, std::uint64_t* b);

}  // namespace cipherblas
