// Modular products by products of bytes: small moduli, and small integers times residues.
#pragma once
#include <cstdint>

#include "gemm/kernels.h"
#include "gemm/views.h"

namespace cipherblas::gemm {

// What is packed at a time, one byte of an entry in each plane: at most (2 x 4096 rows + 7 x 4096 columns) x 4096, 144 MiB.
inline constexpr std::size_t kBytesDepth = 4096;
inline constexpr std::size_t kBytesRows = 4096;
inline constexpr std::size_t kBytesCols = 4096;

// Entries up to these in absolute value are one or two signed bytes: 127, and 127 * 2^8 + 127.
inline constexpr std::uint64_t kOneByte = 127;
inline constexpr std::uint64_t kTwoBytes = (127 << 8) + 127;
// Of moduli: quotients of sums, below 2^53, must stay below 2^51.
inline constexpr std::uint64_t kLeastByteModulus = 128;

// The signed bytes that entries up to `most` take, int8 ones 1 whatever they are; 0 if more than two.
int signed_bytes(Item item, std::uint64_t most);

// c = a b mod q, or that added to c, for entries of a, residues centred, of one or two signed bytes each, and residues b of
// up to seven unsigned ones; q is at least kLeastByteModulus. The table of kernels must have a tile of bytes. Extra memory:
// at most 146 MiB.
void byte_gemm(const MatrixView& a, const MatrixView& b, const MatrixSpan& c, const Modulus& m, int bytes_a,
               bool accumulate);

}  // namespace cipherblas::gemm
