// The modular product by packing and register tiles.
#pragma once
#include "gemm/kernels.h"
#include "gemm/views.h"

namespace cipherblas::gemm {

// What is packed at a time: 32 and 33 MiB. The sums are as deep as tiles allow, since each one is reduced and merged into
// the result.
inline constexpr std::size_t kPackedDepth = kTileDepthBelow4q;
inline constexpr std::size_t kPackedRows = 1024 * kTileRows;
inline constexpr std::size_t kPackedCols = 176 * kTileCols;

inline constexpr int kMaxStrassenLevels = 2;  // sums of 4 residues are below 4q < 2^52, what a tile may take

// c = a b mod q, or that added to c, with so many levels of Strassen's algorithm (strassen_products); any shape is cut, and
// blocks at the far edges are smaller. The table of kernels must have a tile. Extra memory: at most 65 MiB and a tile
// per thread.
void blocked_gemm(const MatrixView& a, const MatrixView& b, const MatrixSpan& c, const GemmModulus& m,
                  int levels, bool accumulate);

// Whether sums of 2^levels residues are so small that narrow tiles multiply them.
bool has_narrow_sums(std::uint64_t q, int levels);

// c = u b mod q, or that added to c, for signed integers |u| <= kNarrowOffset and q < 2^kNarrowBits, by narrow tiles: of
// u + kNarrowOffset, less that offset times the sums of the columns of b.
void narrow_gemm(const MatrixView& u, const MatrixView& b, const MatrixSpan& c, const GemmModulus& m,
                 bool accumulate);

}  // namespace cipherblas::gemm
