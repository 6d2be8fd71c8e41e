// The base conversions of the AVX-512 IFMA table.
#pragma once
#include "ring/kernels.h"

namespace cipherblas::avx512ifma {

void base_convert(std::uint64_t* r, const std::uint64_t* const* y, const std::uint64_t* factor, int count,
                  const std::uint64_t* v, std::uint64_t overflow_factor, std::size_t n, const Modulus& m);
void base_convert_ntt(std::uint64_t* r, const ConversionPiece& piece, const ConversionFactors& f, bool bypass,
                      const NttTable& table);
void order_stores();
int ntt_parts(int log_n);

}  // namespace cipherblas::avx512ifma
