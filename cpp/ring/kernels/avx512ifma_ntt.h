// The transforms of the AVX-512 IFMA table.
#pragma once
#include "ring/kernels.h"
#include "ring/ntt.h"

namespace cipherblas::avx512ifma {

// Whether the degree is large enough for ntt_mirrored.
bool can_mirror(const NttTable& table);
// The transform of a symmetric polynomial, whose first layer has been done: half of it is at x. The other half becomes
// its mirror image.
void ntt_mirrored(std::uint64_t* x, const NttTable& table);
void ntt(std::uint64_t* x, const NttTable& table);
// r[t * length ..] = the words first to first + length - 1 of the transforms of polynomials a_t of `size` coefficients below
// q: not reduced, but below 2^52. See multiply_short_sum in ring/kernels.h.
void ntt_of_shorts(std::uint64_t* r, const std::uint64_t* const* a, std::size_t count, std::size_t size,
                   std::size_t first, std::size_t length, const NttTable& table);
void intt(std::uint64_t* x, const NttTable& table);
void ntt_part(std::uint64_t* const* r, const std::uint64_t* const* x, std::size_t count, int part, bool lazy,
              const Upcoming& upcoming, const NttTable& table);
void ntt_part_add_mul_scalar(std::uint64_t* const* r, const std::uint64_t* const* a,
                             const std::uint64_t* const* x, std::uint64_t* const* work, std::size_t count,
                             std::uint64_t c, int part, bool bypass, const Upcoming& upcoming,
                             const NttTable& table);
void intt_scaled(std::uint64_t* r, const std::uint64_t* a, const std::uint64_t* b, std::uint64_t* scratch,
                 std::uint64_t factor, std::uint64_t shift, const PieceLayout& layout, bool bypass,
                 const NttTable& table);

}  // namespace cipherblas::avx512ifma
