// The float64 BLAS: found at run time and registered here, so that nothing is linked against it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cipherblas::gemm {

// cblas_dgemm with 64-bit integers (ILP64), and what sets the number of threads of that library.
using CblasDgemm = void (*)(int order, int trans_a, int trans_b, std::int64_t m, std::int64_t n,
                            std::int64_t k, double alpha, const double* a, std::int64_t lda, const double* b,
                            std::int64_t ldb, double beta, double* c, std::int64_t ldc);
using SetBlasThreads = void (*)(int count);

// The BLAS of every later call. It is set to one thread, for good: a product is cut here, and each of our own threads
// (ring/threads.h) calls the BLAS for its piece, so that one knob rules and no two pools of threads compete.
void register_blas(CblasDgemm dgemm, SetBlasThreads set_threads);
bool have_blas();
// Puts another function in place of the BLAS's, which it returns: one that counts, and then calls that.
CblasDgemm exchange_blas(CblasDgemm dgemm);

// A float64 operand: row-major, or its transpose.
struct DoubleView {
    const double* data = nullptr;
    std::ptrdiff_t stride = 0;  // from row to row; of a transposed one, from column to column
    bool transposed = false;

    const double* at(std::size_t row, std::size_t col) const {
        const auto line = static_cast<std::ptrdiff_t>(transposed ? col : row);
        return data + line * stride + static_cast<std::ptrdiff_t>(transposed ? row : col);
    }
};

// c (m x n, row-major) = a b, in the calling thread. Throws std::logic_error without a BLAS.
void call_dgemm(const DoubleView& a, const DoubleView& b, double* c, std::ptrdiff_t c_stride, std::size_t m,
                std::size_t k, std::size_t n);

// The same by all threads: what a plain float64 product costs here.
void double_gemm(const DoubleView& a, const DoubleView& b, double* c, std::ptrdiff_t c_stride, std::size_t m,
                 std::size_t k, std::size_t n);

}  // namespace cipherblas::gemm
