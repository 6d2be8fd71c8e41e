#include "gemm/reference.h"

#include "gemm/kernels.h"
#include "gemm/lift.h"
#include "ring/threads.h"

namespace cipherblas::gemm {
namespace {

constexpr std::size_t kColumns = 64;  // that share the walk over a row of a
// Sums of products below 2^100 stay below 2^127.
constexpr std::size_t kTerms = std::size_t{1} << 27;

}  // namespace

void reference_gemm(const MatrixView& a, const MatrixView& b, const MatrixSpan& c, const Modulus& m,
                    bool accumulate) {
    const auto* const right = static_cast<const std::uint64_t*>(b.data);
    const std::size_t pieces = ceil_div(c.cols, kColumns);
    const int threads = threads_for_work(c.rows * pieces, c.rows * c.cols * a.cols);
    parallel_for(c.rows * pieces, threads, [&](std::size_t task, int) {
        const std::size_t i = task / pieces;
        const std::size_t first = task % pieces * kColumns;
        const std::size_t count = std::min(kColumns, c.cols - first);
        u128 sum[kColumns];
        std::uint64_t* const row = c.row(i) + first;
        for (std::size_t j = 0; j < count; ++j) sum[j] = accumulate ? row[j] : 0;
        with_item(a, [&](const auto* left) {
            for (std::size_t p = 0; p < a.cols; ++p) {
                const std::ptrdiff_t offset = static_cast<std::ptrdiff_t>(i) * a.row_stride +
                                              static_cast<std::ptrdiff_t>(p) * a.col_stride;
                const std::uint64_t x = lift(left[offset], m.q);
                const std::uint64_t* const y = right + static_cast<std::ptrdiff_t>(p) * b.row_stride +
                                               static_cast<std::ptrdiff_t>(first) * b.col_stride;
                for (std::size_t j = 0; j < count; ++j) {
                    sum[j] += static_cast<u128>(x) * y[static_cast<std::ptrdiff_t>(j) * b.col_stride];
                    if (p % kTerms == kTerms - 1) sum[j] %= m.q;
                }
            }
        });
        for (std::size_t j = 0; j < count; ++j) row[j] = static_cast<std::uint64_t>(sum[j] % m.q);
    });
}

}  // namespace cipherblas::gemm
