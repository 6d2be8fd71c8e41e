// The operands of products of bytes, as the tiles of bytes read them.
#pragma once
#include <cstdint>

#include "gemm/kernels.h"
#include "gemm/views.h"
#include "ring/pool.h"
#include "ring/threads.h"

namespace cipherblas::gemm {

// A block of either operand, byte by byte: [byte][panel][quad][line of the panel][4].
template <typename Byte, std::size_t WIDTH>
class Planes {
  public:
    Planes(int planes, std::size_t lines, std::size_t depth)
        : planes_(planes),
          plane_(ceil_div(lines, WIDTH) * WIDTH * ceil_div(depth, kQuad) * kQuad),
          buffer_(plane_ * static_cast<std::size_t>(planes)) {}

    void resize(std::size_t depth) { quads_ = ceil_div(depth, kQuad); }
    int planes() const { return planes_; }
    std::size_t quads() const { return quads_; }
    std::size_t pitch() const { return plane_; }
    Byte* at(int plane, std::size_t panel, std::size_t quad) const {
        return static_cast<Byte*>(buffer_.data()) + static_cast<std::size_t>(plane) * plane_ +
               (panel * quads_ + quad) * WIDTH * kQuad;
    }

  private:
    int planes_;
    std::size_t plane_, quads_ = 0;
    Buffer buffer_;
};

using Left = Planes<std::int8_t, kByteRows>;
using Right = Planes<std::uint8_t, kByteCols>;

// Four lines of a panel: where they lie, or copied beside zeros.
template <std::size_t WIDTH>
class Quad {
  public:
    Quad(const MatrixView& block, std::size_t row, std::size_t col) {
        const MatrixView four = block.block(row, col, kQuad, WIDTH);
        if (four.rows == kQuad && four.cols == WIDTH && four.col_stride == 1) {
            for (std::size_t i = 0; i < kQuad; ++i) {
                lines_[i] = static_cast<const std::uint64_t*>(four.at(i, 0));
            }
            return;
        }
        for (std::size_t i = 0; i < kQuad; ++i) {
            lines_[i] = words_ + i * WIDTH;
            for (std::size_t j = 0; j < WIDTH; ++j) {
                words_[i * WIDTH + j] =
                    i < four.rows && j < four.cols ? *static_cast<const std::uint64_t*>(four.at(i, j)) : 0;
            }
        }
    }
    Quad(const Quad&) = delete;
    const std::uint64_t* const* lines() const { return lines_; }

  private:
    const std::uint64_t* lines_[kQuad];
    std::uint64_t words_[kQuad * WIDTH];
};

// The bytes of a block of words, (depth, lines), become the planes from `first` on; centred with moduli. Some panels at a
// time, so that whole lines of the caches are read where lines lie together.
template <typename Byte, std::size_t WIDTH>
void pack_words(const Planes<Byte, WIDTH>& planes, int first, int count, const MatrixView& block,
                const std::uint8_t* moduli) {
    constexpr std::size_t kPanels = 16, kPieces = 8;
    const std::size_t panels = ceil_div(block.cols, WIDTH), groups = ceil_div(panels, kPanels);
    const std::size_t piece = ceil_div(planes.quads(), kPieces), tasks = groups * kPieces;
    parallel_for(tasks, threads_for_work(tasks, block.rows * block.cols), [&](std::size_t task, int) {
        const std::size_t begin = task / kPieces * kPanels, end = std::min(begin + kPanels, panels);
        const std::size_t start = task % kPieces * piece, stop = std::min(start + piece, planes.quads());
        for (std::size_t quad = start; quad < stop; ++quad) {
            for (std::size_t panel = begin; panel < end; ++panel) {
                const Quad<WIDTH> four(block, quad * kQuad, panel * WIDTH);
                gemm_kernels().byte_pack(reinterpret_cast<std::uint8_t*>(planes.at(first, panel, quad)),
                                         planes.pitch(), four.lines(), WIDTH, count, moduli);
            }
        }
    });
}

}  // namespace cipherblas::gemm
