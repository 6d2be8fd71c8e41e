// The transforms of the AVX2 table.
#pragma once
#include "ring/ntt.h"

namespace cipherblas::avx2 {

void ntt_of_signed(std::uint64_t* r, const std::int64_t* a, std::uint64_t factor, bool symmetric,
                   const NttTable& table);
void ntt(std::uint64_t* x, const NttTable& table);
// r[0 .. length) = the words first to first + length - 1 of the transform of a_0 + ... + a_(count-1) X^(count-1), a below q.
void ntt_of_short(std::uint64_t* r, const std::uint64_t* a, std::size_t count, std::size_t first,
                  std::size_t length, const NttTable& table);
void intt(std::uint64_t* x, const NttTable& table);

}  // namespace cipherblas::avx2
