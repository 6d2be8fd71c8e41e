// Matrices, views and the BLAS for the tests of the gemm layer.
#pragma once
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "arith/modulus.h"
#include "arith/primes.h"
#include "gemm/blas.h"
#include "gemm/gemm.h"
#include "gemm/views.h"

namespace cipherblas::testing {

using gemm::Item;
using gemm::MatrixSpan;
using gemm::MatrixView;
using gemm::Path;

// The library that CIPHERBLAS_BLAS_LIBRARY names, a build of OpenBLAS with the symbols of scipy-openblas64; false, said
// aloud, without one.
inline bool load_blas() {
    if (gemm::have_blas()) return true;
    const char* const path = std::getenv("CIPHERBLAS_BLAS_LIBRARY");
    void* const library = path == nullptr || *path == '\0' ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        std::printf("no BLAS (CIPHERBLAS_BLAS_LIBRARY is %s): its paths are not tested\n",
                    path == nullptr ? "not set" : path);
        return false;
    }
    gemm::register_blas(
        reinterpret_cast<gemm::CblasDgemm>(dlsym(library, "scipy_cblas_dgemm64_")),
        reinterpret_cast<gemm::SetBlasThreads>(dlsym(library, "scipy_openblas_set_num_threads64_")));
    return true;
}

// How a matrix lies in memory.
enum class Layout { kRows, kColumns, kReversed, kGaps };
inline constexpr Layout kLayouts[] = {Layout::kRows, Layout::kColumns, Layout::kReversed, Layout::kGaps};

template <typename T>
struct Matrix {
    std::size_t rows, cols;
    Layout layout;
    std::vector<T> storage;

    Matrix(std::size_t row_count, std::size_t col_count, Layout where = Layout::kRows)
        : rows(row_count), cols(col_count), layout(where), storage(3 * rows * cols + 1) {}

    std::ptrdiff_t row_stride() const {
        const auto c = static_cast<std::ptrdiff_t>(cols);
        return layout == Layout::kColumns ? 1
               : layout == Layout::kGaps  ? 3 * c
               : layout == Layout::kRows  ? c
                                          : -c;
    }
    std::ptrdiff_t col_stride() const {
        return layout == Layout::kColumns ? static_cast<std::ptrdiff_t>(rows)
               : layout == Layout::kGaps  ? 3
               : layout == Layout::kRows  ? 1
                                          : -1;
    }
    const T* origin() const {
        return storage.data() + (layout == Layout::kReversed && rows * cols > 0 ? rows * cols - 1 : 0);
    }
    const T& at(std::size_t i, std::size_t j) const {
        return origin()[static_cast<std::ptrdiff_t>(i) * row_stride() +
                        static_cast<std::ptrdiff_t>(j) * col_stride()];
    }
    T& at(std::size_t i, std::size_t j) { return const_cast<T&>(std::as_const(*this).at(i, j)); }
    MatrixView view() const { return {origin(), item(), rows, cols, row_stride(), col_stride()}; }
    static constexpr Item item() {
        if constexpr (std::is_same_v<T, std::uint64_t>) return Item::kResidue;
        if constexpr (std::is_same_v<T, std::int8_t>) return Item::kInt8;
        if constexpr (std::is_same_v<T, std::int16_t>) return Item::kInt16;
        if constexpr (std::is_same_v<T, std::int32_t>) return Item::kInt32;
        if constexpr (std::is_same_v<T, std::int64_t>) return Item::kInt64;
        return Item::kDouble;
    }
};

using Residues = Matrix<std::uint64_t>;

// Every entry from next(i, j).
template <typename T, typename Next>
void fill(Matrix<T>& matrix, const Next& next) {
    for (std::size_t i = 0; i < matrix.rows; ++i) {
        for (std::size_t j = 0; j < matrix.cols; ++j) matrix.at(i, j) = static_cast<T>(next(i, j));
    }
}

// A result whose rows have a gap between them, which must stay as it was.
struct Target {
    static constexpr std::size_t kGap = 3;
    static constexpr std::uint64_t kUntouched = 0xdeadbeef;
    std::size_t rows, cols;
    std::vector<std::uint64_t> storage;

    Target(std::size_t row_count, std::size_t col_count)
        : rows(row_count), cols(col_count), storage(rows * (cols + kGap), kUntouched) {}
    MatrixSpan span() { return {storage.data(), rows, cols, static_cast<std::ptrdiff_t>(cols + kGap)}; }
    std::uint64_t at(std::size_t i, std::size_t j) const { return storage[i * (cols + kGap) + j]; }
    bool gaps_untouched() const {
        for (std::size_t i = 0; i < rows; ++i) {
            for (std::size_t j = cols; j < cols + kGap; ++j) {
                if (at(i, j) != kUntouched) return false;
            }
        }
        return true;
    }
};

// A modulus of so many bits: a prime of the library for an NTT of 16, or a small odd number.
inline std::uint64_t modulus_of(int bits) { return bits < 8 ? 3 : primes_below(16, bits, 1)[0]; }

}  // namespace cipherblas::testing
