// Transposition of a matrix that is encrypted row by row (C-MT), by d key switches and additions.
//
// Row i encrypts m_i(Y), Y = X^(N/d): b is kept at the powers of Y alone. For odd u below 2d
//   h_u = sum_i Y^(u i) m_i(Y) = sum_ij M_ij Y^(u i + j);
// the automorphism Y -> Y^v with u v = 1 mod 2d gives g_v = sum_ij M_ij Y^(i + v j), and
//   sum_v Y^(-v j) g_v = d sum_i M_ij Y^i,
// so that the rows are divided by d modulo q first. Multiplication by powers of Y keeps the exponents of X
// modulo N/d, automorphisms keep the class 0, and a key switch adds to b: the other classes of b never reach
// class 0.
// Source: Park, EUROCRYPT 2025 (C-MT).
//
// Noise: that of the rows is transposed with the message. A switch adds e_v to g_v, and a result is a sum of
// d such polynomials times monomials: the deviation of one switch (rlwe/row_switch.h) times sqrt(d switches
// per row). The e_v are uncorrelated, since the h_u of two or more uniform rows are independent in pairs.
// If all rows but R, d/R apart, are zero, h_u depends on u modulo 2R alone, and rows that share a key too have
// the same e_v up to automorphisms: that noise has the same energy, but gathers in the coefficients of these R
// rows (how much: gathered_switches in rlwe/matrices/transposition.py). No key is shared in the policy `fast`.
#pragma once
#include <vector>

#include "rlwe/row_switch.h"
#include "rlwe/transpose_plan.h"

namespace cipherblas {

// a: [limbs][rows][n], b: [limbs][rows][d], coefficients in [0, q); missing rows are zero. out_a:
// [limbs][d][n], out_b: [limbs][d][d], contiguous. keys: in the order of plan.elements, each made for `limbs`
// limbs at least.
void transpose_rows(const Context& context, const TransposePlan& plan, int limbs, std::size_t rows,
                    const RowsView& a, const RowsView& b, const std::vector<SwitchingKeyView>& keys,
                    std::uint64_t* out_a, std::uint64_t* out_b);

// What one of several machines does between the two exchanges of rows (ring/row_transform.h), in place: the layers
// within its blocks, the automorphisms, the layers of the inverse. a, b: [limbs][blocks of d / 2^log_parts rows][n] and
// [d], signed words. blocks: with each the block of inverse exponents, `inverse_block`. keys: in the order of
// plan.elements; those that the steps of these blocks do not name are not looked at.
void transpose_blocks(const Context& context, const TransposePlan& plan, int limbs, int log_parts,
                      const std::vector<std::size_t>& blocks, const std::vector<SwitchingKeyView>& keys,
                      std::uint64_t* a, std::uint64_t* b);

// The block that the automorphisms exchange rows with: that of the inverse exponents.
std::size_t inverse_block(std::size_t block, int log_parts);

}  // namespace cipherblas
