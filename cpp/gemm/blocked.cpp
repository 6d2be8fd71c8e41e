#include "gemm/blocked.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "gemm/pack.h"
#include "gemm/products.h"
#include "ring/pool.h"
#include "ring/threads.h"

namespace cipherblas::gemm {
namespace {

// Sizes of the five loops (Goto, van de Geijn 2008; Van Zee, van de Geijn 2015). A block of the left operand, 256 KiB,
// stays in the second-level cache while tiles walk over kBlockCols columns.
constexpr std::size_t kBlockRows = 8 * kTileRows;
constexpr std::size_t kBlockCols = 16 * kTileCols;
static_assert(kPackedRows % kBlockRows == 0 && kPackedCols % kBlockCols == 0);
constexpr std::size_t kTilesSpeed = 8;  // products of a tile in the time of a word operation

struct Target {
    MatrixSpan block;
    int sign;
    bool fresh;  // nothing was added to it yet, and its old content does not count
};

// One product of sums of blocks, added to its blocks of the result.
class BlockProduct {
  public:
    BlockProduct(std::vector<SignedBlock> a, std::vector<SignedBlock> b, std::vector<Target> c, std::size_t m,
                 std::size_t k, std::size_t n, const GemmModulus& modulus, std::uint64_t offset, bool narrow)
        : a_(std::move(a)),
          b_(std::move(b)),
          c_(std::move(c)),
          m_(m),
          k_(k),
          n_(n),
          modulus_(modulus),
          offset_(offset),
          tile_(narrow ? gemm_kernels().narrow_tile : gemm_kernels().tile) {}

    void run(std::uint64_t* packed_left, std::uint64_t* packed_right) {
        for (std::size_t col = 0; col < n_; col += kPackedCols) {
            const std::size_t cols = std::min(kPackedCols, n_ - col);
            for (std::size_t p = 0; p < k_; p += kPackedDepth) {
                const std::size_t depth = std::min(kPackedDepth, k_ - p);
                pack_groups(cols, kBlockCols, depth * b_.size(), [&](std::size_t j, std::size_t count) {
                    pack_right(packed_right + j * depth, b_, p, col + j, ceil_div(count, kTileCols), depth,
                               modulus_.m.q);
                });
                for (std::size_t row = 0; row < m_; row += kPackedRows) {
                    const std::size_t rows = std::min(kPackedRows, m_ - row);
                    pack_groups(rows, kBlockRows, depth * a_.size(), [&](std::size_t i, std::size_t count) {
                        pack_left(packed_left + i * depth, a_, row + i, ceil_div(count, kTileRows), p, depth,
                                  modulus_.m.q, offset_);
                    });
                    multiply_packed(packed_left, packed_right, {row, col, rows, cols, depth, p == 0});
                }
            }
        }
    }

  private:
    // Calls pack(first line, number of lines) for all lines, by groups.
    template <typename Pack>
    static void pack_groups(std::size_t lines, std::size_t group, std::size_t line_operations,
                            const Pack& pack) {
        const std::size_t groups = ceil_div(lines, group);
        parallel_for(groups, threads_for_work(groups, lines * line_operations), [&](std::size_t task, int) {
            pack(task * group, std::min(group, lines - task * group));
        });
    }

    // What is packed: where it goes in the blocks of the result.
    struct Region {
        std::size_t row, col, rows, cols, depth;
        bool first;  // of the sum over the inner dimension
    };

    void multiply_packed(const std::uint64_t* left, const std::uint64_t* right, const Region& region) const {
        const std::size_t across = ceil_div(region.cols, kBlockCols);
        const std::size_t tasks = ceil_div(region.rows, kBlockRows) * across;
        const int threads = threads_for_work(tasks, region.rows * region.cols * region.depth / kTilesSpeed);
        parallel_for(tasks, threads, [&](std::size_t task, int) {
            const std::size_t i = task / across * kBlockRows;
            const std::size_t j = task % across * kBlockCols;
            const std::size_t i_end = std::min(i + kBlockRows, region.rows);
            const std::size_t j_end = std::min(j + kBlockCols, region.cols);
            for (std::size_t jj = j; jj < j_end; jj += kTileCols) {
                for (std::size_t ii = i; ii < i_end; ii += kTileRows) {
                    multiply_tile(left + ii * region.depth, right + jj * region.depth, ii, jj, region);
                }
            }
        });
    }

    void multiply_tile(const std::uint64_t* left, const std::uint64_t* right, std::size_t i, std::size_t j,
                       const Region& region) const {
        alignas(64) std::uint64_t tile[kTileRows * kTileCols];
        const GemmKernels& kernels = gemm_kernels();
        for (const Target& target : c_) fetch(target, region.row + i, region.col + j);
        tile_(tile, left, right, region.depth, modulus_);
        for (const Target& target : c_) {
            const MatrixSpan c = target.block.block(region.row + i, region.col + j, kTileRows, kTileCols);
            if (c.rows == 0 || c.cols == 0) continue;
            const bool set = target.fresh && region.first;
            const Merge how = target.sign > 0 ? (set ? Merge::kSet : Merge::kAdd)
                                              : (set ? Merge::kSetNegative : Merge::kSubtract);
            kernels.merge(c.data, c.row_stride, tile, c.rows, c.cols, how, modulus_.m);
        }
    }

    // The result is needed when the tile is done, some thousands of cycles later.
    static void fetch(const Target& target, std::size_t row, std::size_t col) {
        constexpr std::size_t kLineWords = 8;
        const MatrixSpan c = target.block.block(row, col, kTileRows, kTileCols);
        for (std::size_t i = 0; i < c.rows && c.cols > 0; ++i) {
            for (std::size_t j = 0; j < c.cols; j += kLineWords) __builtin_prefetch(c.row(i) + j, 1);
        }
    }

    std::vector<SignedBlock> a_, b_;
    std::vector<Target> c_;
    std::size_t m_, k_, n_;
    const GemmModulus& modulus_;
    std::uint64_t offset_;
    decltype(GemmKernels::tile) tile_;
};

std::vector<SignedBlock> blocks(const MatrixView& matrix, const std::vector<Term>& terms, std::size_t rows,
                                std::size_t cols) {
    std::vector<SignedBlock> result;
    for (const Term& term : terms) {
        result.push_back({matrix.block(static_cast<std::size_t>(term.row) * rows,
                                       static_cast<std::size_t>(term.col) * cols, rows, cols),
                          term.sign});
    }
    return result;
}

// Integers plus an offset are multiplied by narrow tiles, without their correction.
void multiply_blocks(const MatrixView& a, const MatrixView& b, const MatrixSpan& c, const GemmModulus& m,
                     int levels, bool accumulate, std::uint64_t offset) {
    if (gemm_kernels().tile == nullptr) throw std::logic_error("blocked_gemm: no tile in this table");
    if (levels < 0 || levels > kMaxStrassenLevels) throw std::logic_error("blocked_gemm: levels");
    const bool narrow = offset > 0 || has_narrow_sums(m.m.q, levels);
    const std::size_t grid = std::size_t{1} << levels;
    const std::size_t rows = ceil_div(c.rows, grid);
    const std::size_t depth = ceil_div(a.cols, grid);
    const std::size_t cols = ceil_div(c.cols, grid);
    const std::size_t packed_depth = std::min(depth, kPackedDepth);
    const Buffer left =
        Buffer::of_words(packed_depth * ceil_div(std::min(rows, kPackedRows), kTileRows) * kTileRows);
    const Buffer right =
        Buffer::of_words(packed_depth * ceil_div(std::min(cols, kPackedCols), kTileCols) * kTileCols);
    std::vector<bool> fresh(grid * grid, !accumulate);
    for (const Product& product : strassen_products(levels)) {
        std::vector<Target> targets;
        for (const Term& term : product.c) {
            const std::size_t place =
                static_cast<std::size_t>(term.row) * grid + static_cast<std::size_t>(term.col);
            targets.push_back({c.block(static_cast<std::size_t>(term.row) * rows,
                                       static_cast<std::size_t>(term.col) * cols, rows, cols),
                               term.sign, fresh[place]});
            fresh[place] = false;
        }
        BlockProduct(blocks(a, product.a, rows, depth), blocks(b, product.b, depth, cols), std::move(targets),
                     rows, depth, cols, m, offset, narrow)
            .run(left.words(), right.words());
    }
}

// kNarrowOffset times the sums of the columns [from, from + sums.size()) of b, mod q.
void column_sums(const MatrixView& b, std::size_t from, std::vector<std::uint64_t>& sums, const Modulus& m) {
    std::fill(sums.begin(), sums.end(), 0);
    for (std::size_t p = 0; p < b.rows; ++p) {
        const auto* const row = static_cast<const std::uint64_t*>(b.at(p, from));
        for (std::size_t j = 0; j < sums.size(); ++j)
            sums[j] += row[static_cast<std::ptrdiff_t>(j) * b.col_stride];
    }
    for (std::uint64_t& sum : sums) sum = mul_mod(sum % m.q, kNarrowOffset % m.q, m);
}

// c = -correction, or c - correction.
void subtract_offsets(const MatrixView& b, const MatrixSpan& c, const Modulus& m, bool accumulate) {
    constexpr std::size_t kTogether = 512;  // columns
    const std::size_t tasks = ceil_div(c.cols, kTogether);
    parallel_for(tasks, threads_for_work(tasks, (b.rows + c.rows) * c.cols), [&](std::size_t task, int) {
        const std::size_t from = task * kTogether;
        std::vector<std::uint64_t> sums(std::min(kTogether, c.cols - from));
        column_sums(b, from, sums, m);
        for (std::size_t i = 0; i < c.rows; ++i) {
            std::uint64_t* const row = c.row(i) + from;
            for (std::size_t j = 0; j < sums.size(); ++j) {
                const std::uint64_t x = (accumulate ? row[j] : 0) + m.q - sums[j];
                row[j] = x >= m.q ? x - m.q : x;
            }
        }
    });
}

}  // namespace

bool has_narrow_sums(std::uint64_t q, int levels) { return q << levels <= kNarrowResidues; }

void blocked_gemm(const MatrixView& a, const MatrixView& b, const MatrixSpan& c, const GemmModulus& m,
                  int levels, bool accumulate) {
    multiply_blocks(a, b, c, m, levels, accumulate, 0);
}

void narrow_gemm(const MatrixView& u, const MatrixView& b, const MatrixSpan& c, const GemmModulus& m,
                 bool accumulate) {
    subtract_offsets(b, c, m.m, accumulate);
    multiply_blocks(u, b, c, m, 0, true, kNarrowOffset);
}

}  // namespace cipherblas::gemm
