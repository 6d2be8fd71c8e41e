#include "gemm/blas.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "ring/threads.h"

namespace cipherblas::gemm {
namespace {

constexpr int kRowMajor = 101;
constexpr int kNoTrans = 111;
constexpr int kTrans = 112;

std::atomic<CblasDgemm> registered{nullptr};

}  // namespace

void register_blas(CblasDgemm dgemm, SetBlasThreads set_threads) {
    if (dgemm == nullptr || set_threads == nullptr) {
        throw std::invalid_argument("BLAS: expected two functions, got a null pointer");
    }
    set_threads(1);
    registered = dgemm;
}

bool have_blas() { return registered != nullptr; }

CblasDgemm exchange_blas(CblasDgemm dgemm) { return registered.exchange(dgemm); }

void call_dgemm(const DoubleView& a, const DoubleView& b, double* c, std::ptrdiff_t c_stride, std::size_t m,
                std::size_t k, std::size_t n) {
    const CblasDgemm dgemm = registered;
    if (dgemm == nullptr) throw std::logic_error("no BLAS is registered");
    // A stride that is never taken may be anything, but a BLAS wants it to hold a row.
    const auto stride = [](std::ptrdiff_t given, std::size_t length) {
        return std::max(static_cast<std::int64_t>(given), static_cast<std::int64_t>(length));
    };
    dgemm(kRowMajor, a.transposed ? kTrans : kNoTrans, b.transposed ? kTrans : kNoTrans,
          static_cast<std::int64_t>(m), static_cast<std::int64_t>(n), static_cast<std::int64_t>(k), 1.0,
          a.data, stride(a.stride, a.transposed ? m : k), b.data, stride(b.stride, b.transposed ? k : n), 0.0,
          c, stride(c_stride, n));
}

void double_gemm(const DoubleView& a, const DoubleView& b, double* c, std::ptrdiff_t c_stride, std::size_t m,
                 std::size_t k, std::size_t n) {
    if (m == 0 || n == 0) return;
    // One piece per thread, or more where these would be long, of whole multiples of what BLAS kernels compute at a time.
    constexpr std::size_t kGrain = 48;
    constexpr std::size_t kMostProducts = std::size_t{1} << 31;  // of a piece, if it has some lines then
    const bool by_rows = m >= n;
    const std::size_t length = by_rows ? m : n;
    const auto threads = static_cast<std::size_t>(threads_for((length + kGrain - 1) / kGrain));
    const std::size_t most =
        std::max(5 * kGrain, kMostProducts / std::max<std::size_t>(1, k * std::min(m, n)));
    const std::size_t each = std::min((length + threads - 1) / threads, most);
    const std::size_t step = (each + kGrain - 1) / kGrain * kGrain;
    parallel_for((length + step - 1) / step, [&](std::size_t piece) {
        const std::size_t from = piece * step;
        const std::size_t count = std::min(step, length - from);
        if (by_rows) {
            call_dgemm({a.at(from, 0), a.stride, a.transposed}, b,
                       c + static_cast<std::ptrdiff_t>(from) * c_stride, c_stride, count, k, n);
        } else {
            call_dgemm(a, {b.at(0, from), b.stride, b.transposed}, c + from, c_stride, m, k, count);
        }
    });
}

}  // namespace cipherblas::gemm
