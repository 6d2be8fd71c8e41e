// The transforms of the AVX2 table.
#pragma once
#include "ring/kernels.h"
#include "ring/ntt.h"

namespace cipherblas::avx2 {

void ntt_of_signed(std::uint64_t* r, const std::int64_t* a, std::uint64_t factor, bool symmetric,
                   const NttTable& table);
void ntt(std::uint64_t* x, const NttTable& table);
// r[0 .. length) = the words first to first + length - 1 of the transform of a_0 + ... + a_(count-1) X^(count-1), a below q.
void ntt_of_short(std::uint64_t* r, const std::uint64_t* a, std::size_t count, std::size_t first,
                  std::size_t length, const NttTable& table);
void ntt_part(std::uint64_t* const* r, const std::uint64_t* const* x, std::size_t count, int part, bool lazy,
              const Upcoming& upcoming, const NttTable& table);
void ntt_part_add_mul_scalar(std::uint64_t* const* r, const std::uint64_t* const* a,
                             const std::uint64_t* const* x, std::uint64_t* const* work, std::size_t count,
                             std::uint64_t c, int part, bool bypass, const Upcoming& upcoming,
                             const NttTable& table);
void intt(std::uint64_t* x, const NttTable& table);
void intt_scaled(std::uint64_t* r, const std::uint64_t* a, const std::uint64_t* b, std::uint64_t* scratch,
                 std::uint64_t factor, std::uint64_t shift, const PieceLayout& layout, bool bypass,
                 const NttTable& table);
void mul(std::uint64_t* r, const std::uint64_t* a, const std::uint64_t* b, std::size_t n, const Modulus& m);

}  // namespace cipherblas::avx2
