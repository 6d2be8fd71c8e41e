// The kernels of an instruction set whose base conversion does no layers of the transform: one part is the whole limb.
#pragma once
#include "ring/kernels.h"
#include "ring/ntt.h"

namespace cipherblas {
namespace {  // internal linkage: every instruction set has its own copy
namespace undivided {

int ntt_parts(int) { return 1; }

template <auto kBaseConvert>
void base_convert_ntt(std::uint64_t* r, const ConversionPiece& piece, const ConversionFactors& f,
                      const NttTable& table) {
    kBaseConvert(r + piece.offset, piece.y, f.factor, f.count, piece.y[f.count], f.factor[f.count],
                 piece.length, table.modulus);
}

template <auto kNtt>
void ntt_part(std::uint64_t* const* x, std::size_t count, int, const Upcoming&, const NttTable& table) {
    for (std::size_t k = 0; k < count; ++k) kNtt(x[k], table);
}

template <auto kNtt, auto kSubMulScalar>
void ntt_part_sub_mul_scalar(std::uint64_t* const* r, const std::uint64_t* const* a, std::uint64_t* const* x,
                             std::size_t count, std::uint64_t c, int, bool, const Upcoming&,
                             const NttTable& table) {
    for (std::size_t k = 0; k < count; ++k) {
        kNtt(x[k], table);
        kSubMulScalar(r[k], a[k], x[k], c, std::size_t{1} << table.log_n, table.modulus);
    }
}

}  // namespace undivided
}  // namespace
}  // namespace cipherblas
