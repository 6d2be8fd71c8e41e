// The product as it is defined: slow, simple, and what every other path is compared with.
#pragma once
#include "gemm/kernels.h"
#include "gemm/views.h"

namespace cipherblas::gemm {

// c = a b mod q, or that added to c. The entries of a may be residues or signed integers; those of b are residues.
void reference_gemm(const MatrixView& a, const MatrixView& b, const MatrixSpan& c, const Modulus& m,
                    bool accumulate);

}  // namespace cipherblas::gemm
