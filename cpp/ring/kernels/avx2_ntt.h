// The two transforms of the AVX2 table.
#pragma once
#include "ring/ntt.h"

namespace cipherblas::avx2 {

void ntt(std::uint64_t* x, const NttTable& table);
void intt(std::uint64_t* x, const NttTable& table);

}  // namespace cipherblas::avx2
