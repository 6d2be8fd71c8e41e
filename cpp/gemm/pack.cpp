#include "gemm/pack.h"

#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "gemm/kernels.h"
#include "gemm/lift.h"
#include "ring/pool.h"

namespace cipherblas::gemm {
namespace {

template <PackStep STEP>
std::uint64_t stepped(std::uint64_t old, std::uint64_t x, std::uint64_t q) {
    switch (STEP) {
        case PackStep::kCopy:
            return x;
        case PackStep::kCopyNegative:
            return q - x;
        case PackStep::kAdd:
            return old + x;
        default:
            return old + (q - x);
    }
}

// Lines [first, first + lines) entry by entry.
template <PackStep STEP>
void pack_entries(std::uint64_t* packed, const std::uint64_t* from, const PanelShape& shape,
                  std::size_t first, std::size_t lines, std::uint64_t q) {
    for (std::size_t line = first; line < first + lines; ++line) {
        std::uint64_t* const to = packed + line / shape.width * shape.pitch + line % shape.width;
        const std::uint64_t* const entries = from + static_cast<std::ptrdiff_t>(line) * shape.across;
        for (std::size_t p = 0; p < shape.depth; ++p) {
            std::uint64_t& word = to[p * shape.width];
            word = stepped<STEP>(word, entries[static_cast<std::ptrdiff_t>(p) * shape.along], q);
        }
    }
}

// One block of residues; `lines` may end within a panel.
void pack_block(std::uint64_t* packed, const std::uint64_t* from, const PanelShape& shape, std::size_t lines,
                PackStep step, std::uint64_t q) {
    std::size_t done = 0;
    if (shape.across == 1 || shape.along == 1) {
        done = shape.panels * shape.width;
        gemm_kernels().pack(packed, from, shape, step, q);
    }
    const std::size_t rest = lines - done;
    switch (step) {
        case PackStep::kCopy:
            return pack_entries<PackStep::kCopy>(packed, from, shape, done, rest, q);
        case PackStep::kCopyNegative:
            return pack_entries<PackStep::kCopyNegative>(packed, from, shape, done, rest, q);
        case PackStep::kAdd:
            return pack_entries<PackStep::kAdd>(packed, from, shape, done, rest, q);
        case PackStep::kSubtract:
            return pack_entries<PackStep::kSubtract>(packed, from, shape, done, rest, q);
    }
}

// A block of signed integers as residues, or plus an offset, in the order of memory; `shape` then has their strides.
Buffer lifted(const MatrixView& from, PanelShape& shape, std::size_t lines, std::uint64_t q,
              std::uint64_t offset) {
    Buffer residues = Buffer::of_words(lines, shape.depth);
    const bool by_lines = std::abs(shape.along) <= std::abs(shape.across);
    const std::size_t count = by_lines ? lines : shape.depth;
    const std::size_t length = by_lines ? shape.depth : lines;
    const std::ptrdiff_t step = by_lines ? shape.across : shape.along;
    const std::ptrdiff_t stride = by_lines ? shape.along : shape.across;
    with_item(from, [&](const auto* entries) {
        if constexpr (std::is_signed_v<std::remove_cvref_t<decltype(*entries)>>) {
            for (std::size_t i = 0; i < count; ++i) {
                std::uint64_t* const to = residues.words() + i * length;
                const auto* const line = entries + static_cast<std::ptrdiff_t>(i) * step;
                if (offset == 0) {
                    lift_line(to, line, stride, length, q);
                } else {
                    offset_line(to, line, stride, length, offset);
                }
            }
        }
    });
    shape.across = by_lines ? static_cast<std::ptrdiff_t>(length) : 1;
    shape.along = by_lines ? 1 : static_cast<std::ptrdiff_t>(length);
    return residues;
}

PackStep step_of(int sign, bool first) {
    if (first) return sign > 0 ? PackStep::kCopy : PackStep::kCopyNegative;
    return sign > 0 ? PackStep::kAdd : PackStep::kSubtract;
}

// A block whose rows (or columns) are the lines of panels; `depth` is the length of a whole line.
void pack_term(std::uint64_t* packed, const MatrixView& from, bool by_rows, std::size_t width,
               std::size_t panels, std::size_t depth, int sign, bool first, std::uint64_t q,
               std::uint64_t offset) {
    const std::size_t lines = by_rows ? from.rows : from.cols;
    PanelShape shape = {width,
                        lines / width,
                        by_rows ? from.cols : from.rows,
                        by_rows ? from.row_stride : from.col_stride,
                        by_rows ? from.col_stride : from.row_stride,
                        width * depth};
    const bool whole = lines == panels * width && shape.depth == depth;
    if (first && !whole) std::memset(packed, 0, panels * width * depth * sizeof(std::uint64_t));
    if (lines == 0 || shape.depth == 0) return;
    const PackStep step = step_of(sign, first && whole);
    if (from.item == Item::kResidue) {
        return pack_block(packed, static_cast<const std::uint64_t*>(from.data), shape, lines, step, q);
    }
    const Buffer residues = lifted(from, shape, lines, q, offset);
    pack_block(packed, residues.words(), shape, lines, step, q);
}

}  // namespace

void pack_left(std::uint64_t* packed, const std::vector<SignedBlock>& sum, std::size_t row,
               std::size_t panels, std::size_t col, std::size_t depth, std::uint64_t q,
               std::uint64_t offset) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
        const MatrixView from = sum[i].view.block(row, col, panels * kTileRows, depth);
        pack_term(packed, from, true, kTileRows, panels, depth, sum[i].sign, i == 0, q, offset);
    }
}

void pack_right(std::uint64_t* packed, const std::vector<SignedBlock>& sum, std::size_t row, std::size_t col,
                std::size_t panels, std::size_t depth, std::uint64_t q) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
        const MatrixView from = sum[i].view.block(row, col, depth, panels * kTileCols);
        pack_term(packed, from, false, kTileCols, panels, depth, sum[i].sign, i == 0, q, 0);
    }
}

}  // namespace cipherblas::gemm
