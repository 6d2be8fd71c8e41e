// The kernels of an instruction set whose base conversion does no layers of the transform: one part is the whole limb.
#pragma once
#include <algorithm>
#include <vector>

#include "ring/kernels.h"
#include "ring/ntt.h"

namespace cipherblas {
namespace {  // internal linkage: every instruction set has its own copy
namespace undivided {

[[maybe_unused]] int ntt_parts(int) { return 1; }
[[maybe_unused]] void order_stores() {}

template <auto kBaseConvert>
void base_convert_ntt(std::uint64_t* r, const ConversionPiece& piece, const ConversionFactors& f, bool,
                      const NttTable& table) {
    if (piece.y[f.count] != nullptr) {
        return kBaseConvert(r + piece.offset, piece.y, f.factor, f.count, piece.y[f.count], f.factor[f.count],
                            piece.length, table.modulus);
    }
    constexpr std::size_t kChunk = 512;
    alignas(64) std::uint64_t overflow[kChunk];
    std::fill_n(overflow, kChunk, std::uint64_t{1});
    for (std::size_t start = 0; start < piece.length; start += kChunk) {
        const std::uint64_t* const y = piece.y[0] + start;
        const std::size_t words = piece.length - start < kChunk ? piece.length - start : kChunk;
        kBaseConvert(r + piece.offset + start, &y, f.factor, 1, overflow, f.factor[1], words, table.modulus);
    }
}

template <auto kMul, auto kMulScalar, auto kIntt>
void intt_scaled(std::uint64_t* r, const std::uint64_t* a, const std::uint64_t* b, std::uint64_t* scratch,
                 std::uint64_t factor, std::uint64_t shift, const PieceLayout&, bool, const NttTable& table) {
    const std::size_t n = std::size_t{1} << table.log_n;
    if (b != nullptr) {
        kMul(scratch, a, b, n, table.modulus);
        a = scratch;
    }
    kMulScalar(r, a, factor, n, table.modulus);
    kIntt(r, table);
    if (shift == 0) return;
    for (std::size_t i = 0; i < n; ++i) r[i] = add_mod(r[i], shift, table.modulus);
}

template <auto kFromSigned, auto kMulScalar, auto kNtt>
void ntt_of_signed(std::uint64_t* r, const std::int64_t* a, std::uint64_t factor, bool,
                   const NttTable& table) {
    const std::size_t n = std::size_t{1} << table.log_n;
    kFromSigned(r, a, n, table.modulus);
    if (factor != 1) kMulScalar(r, r, factor, n, table.modulus);
    kNtt(r, table);
}

template <auto kNtt>
void ntt_part(std::uint64_t* const* r, const std::uint64_t* const* x, std::size_t count, int, bool,
              const Upcoming&, const NttTable& table) {
    for (std::size_t k = 0; k < count; ++k) {
        if (r[k] != x[k]) std::copy_n(x[k], std::size_t{1} << table.log_n, r[k]);
        kNtt(r[k], table);
    }
}

template <auto kNtt, auto kAddMulScalar>
void ntt_part_add_mul_scalar(std::uint64_t* const* r, const std::uint64_t* const* a,
                             const std::uint64_t* const* x, std::uint64_t* const* work, std::size_t count,
                             std::uint64_t c, int part, bool, const Upcoming& upcoming,
                             const NttTable& table) {
    ntt_part<kNtt>(work, x, count, part, false, upcoming, table);
    for (std::size_t k = 0; k < count; ++k) {
        kAddMulScalar(r[k], a[k], work[k], c, std::size_t{1} << table.log_n, table.modulus);
    }
}

// Transforms one after the other, and then the sum.
template <auto kNttOfShort, auto kMultiplyPlainSum>
void multiply_short_sum(std::uint64_t* c0, std::uint64_t* c1, const std::uint64_t* const* p, std::size_t size,
                        const std::uint64_t* const* b0, const std::uint64_t* const* b1, std::size_t count,
                        bool accumulate, std::size_t first, std::size_t n, std::uint64_t* scratch,
                        const NttTable& table) {
    std::vector<const void*> transforms(count);
    for (std::size_t t = 0; t < count; ++t) {
        transforms[t] = scratch + t * n;
        kNttOfShort(scratch + t * n, p[t], size, first, n, table);
    }
    kMultiplyPlainSum(c0, c1, transforms.data(), 2, 1, b0, b1, count, accumulate, n, table.modulus);
}

}  // namespace undivided
}  // namespace
}  // namespace cipherblas
