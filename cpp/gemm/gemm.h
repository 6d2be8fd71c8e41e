// Matrix products modulo q: the paths, and the choice between them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "gemm/views.h"

namespace cipherblas::gemm {

// Paths of modular_gemm and small_gemm. All but kRounded are exact.
enum class Path {
    kAuto,       // the cheapest exact one for this shape, modulus and processor
    kScalar,     // the definition, in 128-bit integers
    kIfma,       // register tiles of 52-bit multiply-adds
    kStrassen,   // the same with one level of Strassen's algorithm
    kStrassen2,  // with two levels
    kNarrow,     // small_gemm alone: tiles of one multiply-add, of |u| <= 2^15 and q < 2^36
    kBytes,      // products of bytes: of |u| up to two of them, or residues modulo q < 2^16 or so
    kExact,      // float64 products of digits that are small enough ("blas" of modular_gemm)
    kRounded,    // small_gemm alone: one float64 product, rounded (gemm/rounding.h)
};

// What is available here: CPU, build, CIPHERBLAS_ISA, a registered BLAS.
bool path_available(Path path);

// c = a b mod q, or that added to c. All entries are residues; q is odd, 2 < q < 2^50. c overlaps neither a
// nor b. Throws std::invalid_argument for a path that is not available, or kRounded.
void modular_gemm(const MatrixView& a, const MatrixView& b, const MatrixSpan& c, std::uint64_t q, Path path,
                  bool accumulate);

// c = u b mod q, or that added to c, for signed integers u with |u| <= max_u.
void small_gemm(const MatrixView& u, const MatrixView& b, const MatrixSpan& c, std::uint64_t q,
                std::uint64_t max_u, Path path, bool accumulate);

// True if all residues are below `bound`, itself at most 2^63.
bool all_below(const MatrixView& view, std::uint64_t bound);

// The largest entry in absolute value; of residues, the largest. Throws std::invalid_argument if a double is not an
// integer below 2^53 in absolute value.
std::uint64_t largest_magnitude(const MatrixView& view);

}  // namespace cipherblas::gemm
