#include "gemm/float_gemm.h"

#include <cstdlib>
#include <vector>

#include "gemm/blas.h"
#include "ring/pool.h"
#include "ring/threads.h"

namespace cipherblas::gemm {
namespace {

// What one call of the BLAS computes, at most, and what a thread keeps for it: 4 MiB. Larger calls are hardly faster, and
// nobody is asked meanwhile whether to go on.
constexpr std::size_t kTileRows = 256;
constexpr std::size_t kTileCols = 2048;

constexpr std::size_t kBlasSpeed = 16;  // products of the BLAS in the time of a word operation

// A block of an operand as doubles, digit by digit; transposed if its columns are what lies together in memory.
class DigitPlanes {
  public:
    DigitPlanes(const Digits& digits, std::size_t rows, std::size_t cols)
        : digits_(digits),
          plane_(std::max(rows * padded(cols), cols * padded(rows))),
          buffer_(plane_ * static_cast<std::size_t>(digits.parts) * sizeof(double)) {}

    void fill(const MatrixView& block, const Modulus& m) {
        transposed_ = std::abs(block.col_stride) > std::abs(block.row_stride) && block.rows > 1;
        const std::size_t lines = transposed_ ? block.cols : block.rows;
        const std::size_t length = transposed_ ? block.rows : block.cols;
        const std::ptrdiff_t step = transposed_ ? block.row_stride : block.col_stride;
        stride_ = padded(length);
        // Some lines to a task: one is too little.
        const std::size_t together = std::max<std::size_t>(1, 8192 / std::max<std::size_t>(length, 1));
        const std::size_t tasks = ceil_div(lines, together);
        parallel_for(tasks, threads_for_work(tasks, lines * length), [&](std::size_t task, int) {
            const std::size_t end = std::min(lines, (task + 1) * together);
            for (std::size_t line = task * together; line < end; ++line) {
                const void* const from = transposed_ ? block.at(0, line) : block.at(line, 0);
                gemm_kernels().to_double(this->line(0, line), from, block.item, step, length, m);
                for (int i = 0; i + 1 < digits_.parts; ++i) {
                    gemm_kernels().split(this->line(i, line), this->line(i + 1, line), digits_.width, length);
                }
            }
        });
    }

    DoubleView view(int digit, std::size_t row, std::size_t col) const {
        const DoubleView whole = {plane(digit), static_cast<std::ptrdiff_t>(stride_), transposed_};
        return {whole.at(row, col), whole.stride, transposed_};
    }

  private:
    // Lines at multiples of 64 bytes, but not of a page, where their entries would compete for the same cache sets.
    static std::size_t padded(std::size_t length) {
        const std::size_t words = (length + 7) / 8 * 8;
        return words % 512 == 0 ? words + 8 : words;
    }
    double* plane(int digit) const {
        return static_cast<double*>(buffer_.data()) + static_cast<std::size_t>(digit) * plane_;
    }
    double* line(int digit, std::size_t i) const { return plane(digit) + i * stride_; }

    Digits digits_;
    std::size_t plane_, stride_ = 0;
    bool transposed_ = false;
    Buffer buffer_;
};

// The products of the digits of two blocks, tile by tile.
class DigitProducts {
  public:
    DigitProducts(const DigitPlanes& a, const DigitPlanes& b, const Splitting& splitting, const Modulus& m)
        : a_(a), b_(b), splitting_(splitting), m_(m) {
        for (int i = 0; i < splitting.a.parts; ++i) {
            for (int j = 0; j < splitting.b.parts; ++j)
                weights_.push_back(weight_of(i * splitting.a.width + j * splitting.b.width, m));
        }
    }

    // c (a tile whose top left entry is (row, col) of the block) = the sum over `depth` products, or that added to c.
    void tile(const MatrixSpan& c, std::size_t row, std::size_t col, std::size_t depth, double* workspace,
              bool accumulate) const {
        for (std::size_t p = 0; p < depth; p += splitting_.depth) {
            const std::size_t count = std::min(splitting_.depth, depth - p);
            for (int i = 0; i < splitting_.a.parts; ++i) {
                for (int j = 0; j < splitting_.b.parts; ++j) {
                    call_dgemm(a_.view(i, row, p), b_.view(j, p, col), workspace,
                               static_cast<std::ptrdiff_t>(c.cols), c.rows, count, c.cols);
                    const std::int64_t weight =
                        weights_[static_cast<std::size_t>(i * splitting_.b.parts + j)];
                    for (std::size_t r = 0; r < c.rows; ++r)
                        gemm_kernels().reduce(c.row(r), workspace + r * c.cols, weight, accumulate, c.cols,
                                              m_);
                    accumulate = true;
                    if (asks) ask_if_due();
                }
            }
        }
    }

  private:
    const DigitPlanes& a_;
    const DigitPlanes& b_;
    const Splitting& splitting_;
    const Modulus& m_;
    std::vector<std::int64_t> weights_;
};

// The tiles of a region: as many as there are threads at least, so far as they stay large.
struct TileSize {
    std::size_t rows, cols;

    TileSize(std::size_t region_rows, std::size_t region_cols) : rows(kTileRows), cols(kTileCols) {
        constexpr std::size_t kLeast = 96;
        rows = std::min(rows, region_rows);
        cols = std::min(cols, region_cols);
        const auto threads = static_cast<std::size_t>(threads_for(region_rows * region_cols));
        while (ceil_div(region_rows, rows) * ceil_div(region_cols, cols) < threads) {
            std::size_t& longer = rows >= cols ? rows : cols;
            if (longer < 2 * kLeast) break;
            longer = (longer / 2 + 47) / 48 * 48;
        }
    }
};

}  // namespace

std::int64_t weight_of(int shift, const Modulus& m) {
    const std::uint64_t residue = pow_mod(2, static_cast<std::uint64_t>(shift), m);
    return static_cast<std::int64_t>(residue) - (residue > m.q / 2 ? static_cast<std::int64_t>(m.q) : 0);
}

void float_gemm(const MatrixView& a, const MatrixView& b, const MatrixSpan& c, const Modulus& m,
                const Splitting& splitting, bool accumulate) {
    const std::size_t depth = std::min(a.cols, kConvertedDepth);
    const std::size_t rows = std::min(c.rows, kConvertedRows);
    const std::size_t cols = std::min(c.cols, kConvertedCols);
    DigitPlanes left(splitting.a, rows, depth);
    DigitPlanes right(splitting.b, depth, cols);
    const TileSize tile(rows, cols);
    const int threads = threads_for_work(ceil_div(rows, tile.rows) * ceil_div(cols, tile.cols),
                                         rows * cols * depth / kBlasSpeed);
    const std::size_t workspace = tile.rows * tile.cols;
    const Buffer workspaces(static_cast<std::size_t>(threads) * workspace * sizeof(double));
    const DigitProducts products(left, right, splitting, m);
    for (std::size_t p = 0; p < a.cols; p += depth) {
        const std::size_t count = std::min(depth, a.cols - p);
        for (std::size_t row = 0; row < c.rows; row += rows) {
            left.fill(a.block(row, p, rows, count), m);
            for (std::size_t col = 0; col < c.cols; col += cols) {
                right.fill(b.block(p, col, count, cols), m);
                const MatrixSpan region = c.block(row, col, rows, cols);
                const std::size_t across = ceil_div(region.cols, tile.cols);
                parallel_for(ceil_div(region.rows, tile.rows) * across, threads,
                             [&](std::size_t task, int thread) {
                                 const std::size_t i = task / across * tile.rows;
                                 const std::size_t j = task % across * tile.cols;
                                 products.tile(region.block(i, j, tile.rows, tile.cols), i, j, count,
                                               static_cast<double*>(workspaces.data()) +
                                                   static_cast<std::size_t>(thread) * workspace,
                                               accumulate || p > 0);
                             });
            }
        }
    }
}

}  // namespace cipherblas::gemm
