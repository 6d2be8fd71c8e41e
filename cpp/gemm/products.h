// The block products of a matrix product: one for the plain product, 7 or 49 for Strassen's.
#pragma once
#include <vector>

namespace cipherblas::gemm {

// A block of an operand cut into a grid, with its sign in a sum.
struct Term {
    int row, col;
    int sign;  // 1 or -1
};

// (sum of blocks of A)(sum of blocks of B), added to or subtracted from blocks of C.
struct Product {
    std::vector<Term> a, b, c;
};

// The products of `levels` recursions of Strassen's algorithm (1969), as one flat list over grids of 2^levels x 2^levels
// blocks; no level is the plain product. Sums have at most 2^levels terms.
//
// Flat, since additions then cost no passes of their own and no memory: the sums of blocks are formed while operands are
// packed, and a tile is added to each of its blocks of C while it is in registers (Huang, Smith, Henry, van de Geijn,
// "Strassen's Algorithm Reloaded", SC 2016). That weighs more than the 3 additions fewer of Winograd's variant.
std::vector<Product> strassen_products(int levels);

}  // namespace cipherblas::gemm
