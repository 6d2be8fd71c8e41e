// The sums of products of the AVX2 table.
#pragma once
#include "ring/kernels.h"

namespace cipherblas::avx2 {

void base_convert(std::uint64_t* r, const std::uint64_t* const* y, const std::uint64_t* factor, int count,
                  const std::uint64_t* v, std::uint64_t overflow_factor, std::size_t n, const Modulus& m);
// Of words that were prepared, as float64.
void base_convert_prepared(std::uint64_t* r, const std::uint64_t* const* y, const std::uint64_t* factor,
                           int count, const std::uint64_t* v, std::uint64_t overflow_factor, std::size_t n,
                           const Modulus& m);
void multiply_sum(std::uint64_t* c0, std::uint64_t* c1, std::uint64_t* c2, const std::uint64_t* const* a0,
                  const std::uint64_t* const* a1, const std::uint64_t* const* b0,
                  const std::uint64_t* const* b1, std::size_t count, bool accumulate, bool bypass,
                  std::size_t n, const Modulus& m);
void multiply_plain_sum(std::uint64_t* c0, std::uint64_t* c1, const void* const* p, std::size_t halves,
                        std::size_t repeats, const std::uint64_t* const* b0, const std::uint64_t* const* b1,
                        std::size_t count, bool accumulate, std::size_t n, const Modulus& m);
void accumulate_terms(std::uint64_t* out0, std::uint64_t* out1, const RotationTerm* terms, std::size_t count,
                      bool accumulate, std::size_t begin, std::size_t end, const Modulus& m);

}  // namespace cipherblas::avx2
