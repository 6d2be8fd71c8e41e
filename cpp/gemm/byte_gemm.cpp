#include "gemm/byte_gemm.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "gemm/byte_planes.h"
#include "gemm/float_gemm.h"
#include "ring/pool.h"
#include "ring/threads.h"

namespace cipherblas::gemm {
namespace {

constexpr int kTogether =
    4;  // weights 1, 2^8, … of one float64 sum: 2 * 2^15 * kBytesDepth * 2^24 * 256 / 255 < 2^53
static_assert(kBytesDepth <= 4096 && kByteDepth % kQuad == 0);
constexpr std::size_t kBlockPanels = 20;  // of rows, to a task
constexpr std::size_t kBytesSpeed = 32;   // products of a tile in the time of a word operation

std::int64_t centred(std::uint64_t x, std::uint64_t q) {
    return static_cast<std::int64_t>(x) - (x > q / 2 ? static_cast<std::int64_t>(q) : 0);
}

// Signed bytes of a sum with this are the unsigned ones of it, each less 2^7.
constexpr std::uint64_t kBias = 0x8080;
constexpr std::uint32_t kSigns = 0x80808080;

// The signed bytes of four entries of a row, to which kBias was added, in each plane.
void put_quad(const Left& planes, std::size_t panel, std::size_t quad, std::size_t i,
              const std::uint64_t (&entries)[kQuad]) {
    for (int plane = 0; plane < planes.planes(); ++plane) {
        std::uint64_t bytes = 0;
        for (std::size_t p = 0; p < kQuad; ++p) bytes |= (entries[p] >> (8 * plane) & 0xff) << (8 * p);
        const std::uint32_t word = static_cast<std::uint32_t>(bytes) ^ kSigns;
        std::memcpy(planes.at(plane, panel, quad) + i * kQuad, &word, sizeof(word));
    }
}

void pack_left(const Left& planes, const MatrixView& block, const Modulus& m) {
    static_assert(kQuad == sizeof(std::uint32_t));
    const std::size_t panels = ceil_div(block.rows, kByteRows);
    // In the order of memory, if that is by columns as well.
    const bool by_columns = std::abs(block.row_stride) < std::abs(block.col_stride);
    parallel_for(panels, threads_for_work(panels, block.rows * block.cols), [&](std::size_t panel, int) {
        const std::size_t first = panel * kByteRows, count = std::min(kByteRows, block.rows - first);
        with_item(block, [&](const auto* entries) {
            const auto biased = [&](std::size_t i, std::size_t p) {
                const auto entry = entries[static_cast<std::ptrdiff_t>(first + i) * block.row_stride +
                                           static_cast<std::ptrdiff_t>(p) * block.col_stride];
                if constexpr (std::is_same_v<std::remove_cv_t<decltype(entry)>, std::uint64_t>) {
                    return static_cast<std::uint64_t>(centred(entry, m.q)) + kBias;
                } else {
                    return static_cast<std::uint64_t>(static_cast<std::int64_t>(entry)) + kBias;
                }
            };
            const auto put = [&](std::size_t i, std::size_t quad) {
                std::uint64_t four[kQuad] = {kBias, kBias, kBias, kBias};
                const std::size_t start = quad * kQuad;
                if (i < count && start + kQuad <= block.cols) {
                    for (std::size_t p = 0; p < kQuad; ++p) four[p] = biased(i, start + p);
                } else if (i < count) {
                    for (std::size_t p = start; p < block.cols; ++p) four[p - start] = biased(i, p);
                }
                put_quad(planes, panel, quad, i, four);
            };
            const std::size_t outer = by_columns ? planes.quads() : kByteRows;
            const std::size_t inner = by_columns ? kByteRows : planes.quads();
            for (std::size_t x = 0; x < outer; ++x) {
                for (std::size_t y = 0; y < inner; ++y) by_columns ? put(y, x) : put(x, y);
            }
        });
    });
}

// The products of packed blocks, tile by tile.
class ByteProducts {
  public:
    ByteProducts(const Left& a, const Right& b, const Modulus& m) : a_(a), b_(b), m_(m) {
        for (int from = 0; from < shifts(); from += kTogether) weights_.push_back(weight_of(8 * from, m));
    }

    // c (the tile of these panels) = the sum over the depth that is packed, or that added to c.
    void tile(const MatrixSpan& c, std::size_t row_panel, std::size_t col_panel, bool accumulate) const {
        alignas(64) double sums[kByteRows * kByteCols];
        for (std::size_t group = 0; group < weights_.size(); ++group) {
            const int from = static_cast<int>(group) * kTogether;
            bool started = false;
            double weight = 1.0;
            for (int shift = from; shift < std::min(from + kTogether, shifts()); ++shift, weight *= 256) {
                for (int i = 0; i < a_.planes(); ++i) {
                    const int j = shift - i;
                    if (j < 0 || j >= b_.planes()) continue;
                    for (std::size_t quad = 0; quad < a_.quads(); quad += kByteDepth / kQuad) {
                        const std::size_t count = std::min(kByteDepth / kQuad, a_.quads() - quad);
                        gemm_kernels().byte_tile(sums, a_.at(i, row_panel, quad), b_.at(j, col_panel, quad),
                                                 count, weight, started);
                        started = true;
                    }
                }
            }
            for (std::size_t r = 0; r < c.rows; ++r) {
                gemm_kernels().reduce(c.row(r), sums + r * kByteCols, weights_[group],
                                      accumulate || group > 0, c.cols, m_);
            }
        }
    }

  private:
    int shifts() const { return a_.planes() + b_.planes() - 1; }

    const Left& a_;
    const Right& b_;
    const Modulus& m_;
    std::vector<std::int64_t> weights_;
};

}  // namespace

int signed_bytes(Item item, std::uint64_t most) {
    if (item == Item::kInt8 || most <= kOneByte) return 1;
    return most <= kTwoBytes ? 2 : 0;
}

void byte_gemm(const MatrixView& a, const MatrixView& b, const MatrixSpan& c, const Modulus& m, int bytes_a,
               bool accumulate) {
    if (gemm_kernels().byte_tile == nullptr) throw std::logic_error("byte_gemm: no tile in this table");
    const std::size_t depth = std::min(a.cols, kBytesDepth);
    const std::size_t rows = std::min(c.rows, kBytesRows), cols = std::min(c.cols, kBytesCols);
    Left left(bytes_a, rows, depth);
    Right right((std::bit_width(m.q - 1) + 7) / 8, cols, depth);
    const ByteProducts products(left, right, m);
    for (std::size_t col = 0; col < c.cols; col += cols) {
        for (std::size_t p = 0; p < a.cols; p += depth) {
            const std::size_t count = std::min(depth, a.cols - p);
            left.resize(count);
            right.resize(count);
            pack_words(right, 0, right.planes(), b.block(p, col, count, cols), nullptr);
            for (std::size_t row = 0; row < c.rows; row += rows) {
                pack_left(left, a.block(row, p, rows, count), m);
                const MatrixSpan region = c.block(row, col, rows, cols);
                const std::size_t blocks = ceil_div(region.rows, kBlockPanels * kByteRows);
                const std::size_t tasks = blocks * ceil_div(region.cols, kByteCols);
                const int threads = threads_for_work(tasks, region.rows * region.cols * count / kBytesSpeed);
                parallel_for(tasks, threads, [&](std::size_t task, int) {
                    const std::size_t first = task % blocks * kBlockPanels, j = task / blocks;
                    for (std::size_t i = first; i < first + kBlockPanels; ++i) {
                        const MatrixSpan tile =
                            region.block(i * kByteRows, j * kByteCols, kByteRows, kByteCols);
                        if (tile.rows > 0) products.tile(tile, i, j, accumulate || p > 0);
                    }
                });
            }
        }
    }
}

}  // namespace cipherblas::gemm
