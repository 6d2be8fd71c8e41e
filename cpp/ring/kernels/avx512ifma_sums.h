// The sums of products of the AVX-512 IFMA table.
#pragma once
#include "ring/kernels.h"

namespace cipherblas::avx512ifma {

void multiply_sum(std::uint64_t* c0, std::uint64_t* c1, std::uint64_t* c2, const std::uint64_t* const* a0,
                  const std::uint64_t* const* a1, const std::uint64_t* const* b0,
                  const std::uint64_t* const* b1, std::size_t count, bool accumulate, bool bypass,
                  std::size_t n, const Modulus& m);
void multiply_plain_sum(std::uint64_t* c0, std::uint64_t* c1, const void* const* p, std::size_t halves,
                        std::size_t repeats, const std::uint64_t* const* b0, const std::uint64_t* const* b1,
                        std::size_t count, bool accumulate, std::size_t n, const Modulus& m);
void multiply_short_sum(std::uint64_t* c0, std::uint64_t* c1, const std::uint64_t* const* p, std::size_t size,
                        const std::uint64_t* const* b0, const std::uint64_t* const* b1, std::size_t count,
                        bool accumulate, std::size_t first, std::size_t n, std::uint64_t* scratch,
                        const NttTable& table);
void accumulate_terms(std::uint64_t* out0, std::uint64_t* out1, const RotationTerm* terms, std::size_t count,
                      bool accumulate, std::size_t begin, std::size_t end, const Modulus& m);

}  // namespace cipherblas::avx512ifma
