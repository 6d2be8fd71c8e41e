// The error of a small-factor product by one float64 product per chunk.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cipherblas::gemm {

// Products that are added up in float64 before the sum is reduced modulo q (exactly).
inline constexpr std::size_t kRoundedDepth = 1024;
// Sums are below kRoundedDepth max|u| q / 2, and the reduction takes them below 2^50 q.
inline constexpr std::uint64_t kRoundedLargest = (std::uint64_t{1} << 40) - 1;

// Largest |E| of an entry of U B + E mod q over integers |u| <= max_u and residues of q, centred: a chunk of c products
// is off by at most gamma_c sum |u| |b| with gamma_c = c v / (1 - c v), v = 2^-53, in whatever order it is added up, fused
// or not (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 3.1 and 3.5). 0 where every
// partial sum is an exact double.
double rounded_error(std::size_t k, std::uint64_t max_u, std::uint64_t q);

// Root mean square of that error for B uniform modulo q and |u| = max_u throughout, in the model of independent
// rounding errors of mean 0 (Higham, Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput.
// 41(5), 2019): a partial sum of i products has variance i s^2, s = max_u q / sqrt(12), its rounding v^2 / 3 of that.
double rounded_rms(std::size_t k, std::uint64_t max_u, std::uint64_t q);

}  // namespace cipherblas::gemm
