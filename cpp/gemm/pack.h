// Operands copied into the order in which the register tiles read them.
#pragma once
#include <vector>

#include "gemm/views.h"

namespace cipherblas::gemm {

// A block of an operand and its sign in a sum of blocks of equal shape. Blocks at the far edges may be smaller, or
// empty: what they lack counts as 0.
struct SignedBlock {
    MatrixView view;
    int sign;
};

// So many panels of 4 rows from `row` on, of columns [col, col + depth) of the sum: entry (i, p) of a panel goes to
// packed[4 p + i], and is below q times the number of terms. With an offset integers become themselves plus that, instead
// of residues.
void pack_left(std::uint64_t* packed, const std::vector<SignedBlock>& sum, std::size_t row,
               std::size_t panels, std::size_t col, std::size_t depth, std::uint64_t q,
               std::uint64_t offset = 0);

// So many panels of 24 columns from `col` on, of rows [row, row + depth): entry (p, j) goes to packed[24 p + j].
void pack_right(std::uint64_t* packed, const std::vector<SignedBlock>& sum, std::size_t row, std::size_t col,
                std::size_t panels, std::size_t depth, std::uint64_t q);

}  // namespace cipherblas::gemm
