// The entries of a matrix in the order of memory.
#pragma once
#include <cstdlib>
#include <utility>

#include "gemm/views.h"
#include "ring/threads.h"

namespace cipherblas::gemm {

// The entries of a view, each once however often it is repeated by strides of 0: by its rows, or by its columns where
// they are what lies together in memory.
struct Lines {
    std::size_t count, length;
    std::ptrdiff_t across, along;

    explicit Lines(const MatrixView& view)
        : count(view.rows), length(view.cols), across(view.row_stride), along(view.col_stride) {
        if (std::abs(along) > std::abs(across)) {
            std::swap(count, length);
            std::swap(across, along);
        }
        if (length == 0) count = 0;
        if (across == 0) count = std::min<std::size_t>(count, 1);
        if (along == 0) length = std::min<std::size_t>(length, 1);
    }
    // Calls body(offset of the first entry, line) for every line.
    template <typename Body>
    void each(const Body& body) const {
        parallel_for(count, threads_for_work(count, count * length),
                     [&](std::size_t line, int) { body(static_cast<std::ptrdiff_t>(line) * across, line); });
    }
};

}  // namespace cipherblas::gemm
