#include "gemm/pack.h"

#include <cstdlib>
#include <cstring>

#include "gemm/kernels.h"
#include "gemm/lift.h"

namespace cipherblas::gemm {
namespace {

// How the entries of one block come to those that are packed already.
enum class Step { kCopy, kCopyNegative, kAdd, kSubtract };

template <Step STEP>
std::uint64_t stepped(std::uint64_t old, std::uint64_t x, std::uint64_t q) {
    switch (STEP) {
        case Step::kCopy:
            return x;
        case Step::kCopyNegative:
            return q - x;
        case Step::kAdd:
            return old + x;
        default:
            return old + (q - x);
    }
}

// Where the entries of a panel lie: `width` lines beside each other (step `across`), `depth` entries each (step
// `along`).
struct Panel {
    std::size_t width, depth;
    std::ptrdiff_t across, along;
};

// packed[WIDTH * p + w], in the order in which the entries lie in memory.
template <std::size_t WIDTH, Step STEP, typename T>
void pack_entries(std::uint64_t* packed, const T* from, const Panel& panel, std::uint64_t q) {
    const auto entry = [&](std::size_t p, std::size_t w) {
        return lift(from[static_cast<std::ptrdiff_t>(p) * panel.along +
                         static_cast<std::ptrdiff_t>(w) * panel.across],
                    q);
    };
    if (panel.width == WIDTH && panel.across == 1) {
        for (std::size_t p = 0; p < panel.depth; ++p, packed += WIDTH) {
            const T* const line = from + static_cast<std::ptrdiff_t>(p) * panel.along;
            for (std::size_t w = 0; w < WIDTH; ++w) packed[w] = stepped<STEP>(packed[w], lift(line[w], q), q);
        }
    } else if (panel.width == WIDTH && WIDTH <= kTileRows) {
        for (std::size_t p = 0; p < panel.depth; ++p, packed += WIDTH) {
            for (std::size_t w = 0; w < WIDTH; ++w) packed[w] = stepped<STEP>(packed[w], entry(p, w), q);
        }
    } else {
        for (std::size_t w = 0; w < panel.width; ++w) {
            for (std::size_t p = 0; p < panel.depth; ++p) {
                std::uint64_t& word = packed[WIDTH * p + w];
                word = stepped<STEP>(word, entry(p, w), q);
            }
        }
    }
}

template <std::size_t WIDTH>
void pack_block(std::uint64_t* packed, const MatrixView& from, const Panel& panel, int sign, bool first,
                std::uint64_t q) {
    with_item(from, [&](const auto* entries) {
        if (first) {
            sign > 0 ? pack_entries<WIDTH, Step::kCopy>(packed, entries, panel, q)
                     : pack_entries<WIDTH, Step::kCopyNegative>(packed, entries, panel, q);
        } else {
            sign > 0 ? pack_entries<WIDTH, Step::kAdd>(packed, entries, panel, q)
                     : pack_entries<WIDTH, Step::kSubtract>(packed, entries, panel, q);
        }
    });
}

template <std::size_t WIDTH>
void pack_sum(std::uint64_t* packed, const std::vector<SignedBlock>& sum, std::size_t row, std::size_t col,
              std::size_t depth, bool rows_across, std::uint64_t q) {
    bool first = true;
    for (const SignedBlock& term : sum) {
        const MatrixView from =
            rows_across ? term.view.block(row, col, WIDTH, depth) : term.view.block(row, col, depth, WIDTH);
        const Panel panel = rows_across ? Panel{from.rows, from.cols, from.row_stride, from.col_stride}
                                        : Panel{from.cols, from.rows, from.col_stride, from.row_stride};
        const bool whole = panel.width == WIDTH && panel.depth == depth;
        if (first && !whole) std::memset(packed, 0, WIDTH * depth * sizeof(std::uint64_t));
        if (panel.width > 0 && panel.depth > 0) {
            pack_block<WIDTH>(packed, from, panel, term.sign, first && whole, q);
        }
        first = false;
    }
}

}  // namespace

void pack_left(std::uint64_t* packed, const std::vector<SignedBlock>& sum, std::size_t row, std::size_t col,
               std::size_t depth, std::uint64_t q) {
    pack_sum<kTileRows>(packed, sum, row, col, depth, true, q);
}

void pack_right(std::uint64_t* packed, const std::vector<SignedBlock>& sum, std::size_t row, std::size_t col,
                std::size_t depth, std::uint64_t q) {
    pack_sum<kTileCols>(packed, sum, row, col, depth, false, q);
}

}  // namespace cipherblas::gemm
