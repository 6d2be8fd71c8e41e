// The table of inner loops of the matrix products: one table per instruction set, as in ring/kernels.h.
#pragma once
#include <cstddef>
#include <cstdint>

#include "arith/modulus.h"
#include "gemm/views.h"

namespace cipherblas::gemm {

// A modulus with the constants of the kernels of this layer.
struct GemmModulus {
    Modulus m;
    std::uint64_t r3_mod_q = 0;  // 2^156 mod q

    GemmModulus() = default;
    explicit GemmModulus(std::uint64_t q) : m(q), r3_mod_q(mul_mod(m.r2_mod_q, m.r_mod_q, m)) {}
};

// What becomes of a tile of residues: c = tile, c = -tile, c += tile or c -= tile.
enum class Merge { kSet, kSetNegative, kAdd, kSubtract };

// Rows and columns of a register tile: 12 vectors of 8 words, with 2 accumulators each (24 of 32 registers).
inline constexpr std::size_t kTileRows = 4;
inline constexpr std::size_t kTileCols = 24;
// Products that one tile may add up, of factors that are below 4q: the sum of the low words, below k 2^52, fits 64 bits
// for k <= 2^12, and that of the high words, below k 2^52 and with the carries of the low ones, 63 bits for k <= 2^10.
// With factors below 2q the high words are below 2^50, so that k <= 2^12 holds for both.
inline constexpr std::size_t kTileDepth = 4096;
inline constexpr std::size_t kTileDepthBelow4q = 1024;

// How the entries of a block come to those that are packed already: taken over, or added, with either sign. Residues x
// of either sign are packed as x or q - x.
enum class PackStep { kCopy, kCopyNegative, kAdd, kSubtract };

// Panels of `width` (4 or 24) lines beside each other, `depth` entries each, packed one panel after the other.
struct PanelShape {
    std::size_t width, panels, depth;
    std::ptrdiff_t across, along;  // from line to line, and along a line
    std::size_t pitch;             // words from panel to panel, as packed
};

// Factors whose products are below 2^52, so that one multiply-add does for them: u + kNarrowOffset for |u| <= kNarrowOffset,
// and residues of so many bits.
inline constexpr std::uint64_t kNarrowOffset = std::uint64_t{1} << 15;
inline constexpr int kNarrowBits = 36;
inline constexpr std::uint64_t kNarrowResidues = std::uint64_t{1} << 26;  // residues up to it as both factors

// One of the moduli p of operands (gemm/operand_gemm.h), and what a residue counts: r residues are r times `weights` in
// units of 2^-64 and, where there is a second one, 2^-104.
struct OperandModulus {
    double p = 0, inverse = 0;
    std::uint64_t weights[2] = {};
};

// A tile of bytes: 24 vectors of 16 sums; products that one instruction adds up; and so many products, each below
// 255 * 128, that their sums fit 32 bits and a panel of the left operand the first-level cache.
inline constexpr std::size_t kByteRows = 12;
inline constexpr std::size_t kByteCols = 32;
inline constexpr std::size_t kQuad = 4;
inline constexpr std::size_t kByteDepth = 1024;

struct GemmKernels {
    const char* name;  // that of the table of ring/kernels.h

    // r (4 x 24 contiguous, 64-byte aligned) = the sum over p < k of a[4 p + i] * b[24 p + j] mod q, in [0, q).
    // a and b are 64-byte aligned. Null where there is no such kernel.
    void (*tile)(std::uint64_t* r, const std::uint64_t* a, const std::uint64_t* b, std::size_t k,
                 const GemmModulus& m);
    // The same for products a b below 2^52. Null with `tile`.
    void (*narrow_tile)(std::uint64_t* r, const std::uint64_t* a, const std::uint64_t* b, std::size_t k,
                        const GemmModulus& m);
    // The top left rows x cols of a tile into c; null with `tile`.
    void (*merge)(std::uint64_t* c, std::ptrdiff_t row_stride, const std::uint64_t* r, std::size_t rows,
                  std::size_t cols, Merge how, const Modulus& m);

    // Entry (p, line) of `from` goes to panel line / width, place width p + line % width, by that step. One of the
    // strides is 1. Null with `tile`.
    void (*pack)(std::uint64_t* packed, const std::uint64_t* from, const PanelShape& shape, PackStep step,
                 std::uint64_t q);

    // r = the entries of type `item` as doubles, exact below 2^51 in absolute value; residues are centred first.
    void (*to_double)(double* r, const void* a, Item item, std::ptrdiff_t stride, std::size_t n,
                      const Modulus& m);
    // x = low + 2^width * high with |low| <= 2^(width - 1): low replaces x. For integers |x| < 2^51.
    void (*split)(double* x, double* high, int width, std::size_t n);
    // c = weight * r mod q, or that added to c. r holds integers below 2^50 q in absolute value; |weight| <= q / 2.
    void (*reduce)(std::uint64_t* c, const double* r, std::int64_t weight, bool accumulate, std::size_t n,
                   const Modulus& m);

    // r (12 x 32 contiguous, 64-byte aligned) = weight * the sum over p < quads, t < 4 of a[(12 p + i) 4 + t] *
    // b[(32 p + j) 4 + t], or that added to r, for 4 quads <= kByteDepth; all integers below 2^53. a has any address, b is
    // 64-byte aligned. Null where there is no such kernel.
    void (*byte_tile)(double* r, const std::int8_t* a, const std::uint8_t* b, std::size_t quads,
                      double weight, bool accumulate);
    // r (12 x 32 contiguous, 64-byte aligned) = those sums as integers, or these added to r: below 2^31 together. Null with
    // `byte_tile`, as all that follow.
    void (*byte_sums)(std::int32_t* r, const std::int8_t* a, const std::uint8_t* b, std::size_t quads,
                      bool accumulate);
    // c += w r mod 2^64 for the top left rows x cols of sums, r the remainder of each modulo p, centred, w its weight.
    void (*byte_fold)(std::uint64_t* c, std::ptrdiff_t row_stride, const std::int32_t* sums, std::size_t rows,
                      std::size_t cols, const OperandModulus& m, int weight);
    // Byte k < planes of word j of lines[t] goes to packed[k pitch + 4 j + t], for four lines of `words` words, a multiple
    // of 4. With moduli, one for each plane, residues are centred.
    void (*byte_pack)(std::uint8_t* packed, std::size_t pitch, const std::uint64_t* const* lines,
                      std::size_t words, int planes, const std::uint8_t* moduli);
};

// The table that goes with cipherblas::kernels(), so that CIPHERBLAS_ISA forces both.
const GemmKernels& gemm_kernels();

}  // namespace cipherblas::gemm
