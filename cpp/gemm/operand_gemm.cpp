#include "gemm/operand_gemm.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>

#include "arith/modulus.h"
#include "gemm/byte_planes.h"
#include "gemm/lines.h"
#include "ring/threads.h"

namespace cipherblas::gemm {
namespace {

constexpr std::size_t kBlockPanels = 20;  // of rows, to a task
constexpr std::size_t kBytesSpeed = 32;   // products of a tile in the time of a word operation

std::uint64_t inverse_mod(std::uint64_t x, std::uint64_t modulus) {  // small ones
    for (std::uint64_t y = 1; y < modulus; ++y) {
        if (x * y % modulus == 1) return y;
    }
    return 0;
}

int byte_of(std::uint64_t word, std::size_t i) {
    return static_cast<int>(word >> (8 * (i % kModuliOfWord)) & 0xff);
}

void clear(const std::vector<MatrixSpan>& c) {
    for (const MatrixSpan& fraction : c) {
        for (std::size_t i = 0; i < fraction.rows; ++i) std::fill_n(fraction.row(i), fraction.cols, 0);
    }
}

// As it is defined, where there is no tile of bytes.
void by_definition(const std::vector<MatrixView>& a, const std::vector<MatrixView>& b,
                   const OperandModuli& moduli, const std::vector<OperandModulus>& weights,
                   const std::vector<MatrixSpan>& c) {
    const std::size_t rows = c[0].rows, cols = c[0].cols, depth = a[0].cols;
    parallel_for(rows, threads_for_work(rows, rows * cols * depth * moduli.count()), [&](std::size_t i, int) {
        std::vector<std::int64_t> sums(cols);
        for (std::size_t n = 0; n < moduli.count(); ++n) {
            const MatrixView &left = a[n / kModuliOfWord], &right = b[n / kModuliOfWord];
            const int p = moduli[n];
            for (std::size_t first = 0; first < depth; first += kOperandDepth) {
                std::fill(sums.begin(), sums.end(), 0);
                for (std::size_t k = first; k < std::min(depth, first + kOperandDepth); ++k) {
                    const int x = byte_of(*static_cast<const std::uint64_t*>(left.at(i, k)), n);
                    for (std::size_t j = 0; j < cols; ++j) {
                        sums[j] += x * byte_of(*static_cast<const std::uint64_t*>(right.at(k, j)), n);
                    }
                }
                for (std::size_t j = 0; j < cols; ++j) {
                    const std::int64_t rest = sums[j] % p;
                    const auto centred = static_cast<std::uint64_t>(rest > p / 2 ? rest - p : rest);
                    for (std::size_t f = 0; f < c.size(); ++f) {
                        c[f].row(i)[j] += centred * weights[n].weights[f];
                    }
                }
            }
        }
    });
}

// The tiles of one panel of columns and some of rows. For each modulus a piece of that panel stays in the nearest cache
// while the panels of rows pass by.
class Tiles {
  public:
    Tiles(const Left& left, const Right& right, const std::vector<OperandModulus>& weights)
        : left_(left), right_(right), weights_(weights) {}

    // Adds the products of the panels from `first` on, `count` of them, to the fractions.
    void add(const std::vector<MatrixSpan>& c, std::size_t first, std::size_t count,
             std::size_t col_panel) const {
        alignas(64) std::int32_t sums[kBlockPanels][kByteRows * kByteCols];
        for (std::size_t plane = 0; plane < weights_.size(); ++plane) {
            const int at = static_cast<int>(plane);
            for (std::size_t quad = 0; quad < left_.quads(); quad += kQuads) {
                const std::size_t quads = std::min(kQuads, left_.quads() - quad);
                for (std::size_t i = 0; i < count; ++i) {
                    gemm_kernels().byte_sums(sums[i], left_.at(at, first + i, quad),
                                             right_.at(at, col_panel, quad), quads, quad > 0);
                }
            }
            for (std::size_t i = 0; i < count; ++i) {
                for (std::size_t f = 0; f < c.size(); ++f) {
                    const MatrixSpan tile =
                        c[f].block((first + i) * kByteRows, col_panel * kByteCols, kByteRows, kByteCols);
                    gemm_kernels().byte_fold(tile.data, tile.row_stride, sums[i], tile.rows, tile.cols,
                                             weights_[plane], static_cast<int>(f));
                }
            }
        }
    }

  private:
    static constexpr std::size_t kQuads = 128;  // of a piece

    const Left& left_;
    const Right& right_;
    const std::vector<OperandModulus>& weights_;
};

template <typename PLANES>
void pack(const PLANES& planes, const std::vector<MatrixView>& words, const OperandModuli& moduli,
          bool centred, std::size_t row, std::size_t col, std::size_t rows, std::size_t cols) {
    for (std::size_t w = 0; w < words.size(); ++w) {
        pack_words(planes, static_cast<int>(w * kModuliOfWord), static_cast<int>(moduli.count_of(w)),
                   words[w].block(row, col, rows, cols), centred ? moduli.of_word(w) : nullptr);
    }
}

}  // namespace

OperandModuli::OperandModuli(const std::vector<std::uint64_t>& moduli) {
    bool good = !moduli.empty() && moduli.size() <= kMostOperandModuli;
    for (std::size_t i = 0; good && i < moduli.size(); ++i) {
        good = moduli[i] > 128 && moduli[i] < 256 && moduli[i] % 2 == 1;
        for (std::size_t j = 0; good && j < i; ++j) good = std::gcd(moduli[i], moduli[j]) == 1;
    }
    if (!good) {
        throw std::invalid_argument("moduli: expected 1 to " + std::to_string(kMostOperandModuli) +
                                    " coprime odd numbers from 129 to 255");
    }
    for (const std::uint64_t p : moduli) moduli_.push_back(static_cast<std::uint8_t>(p));
}

std::vector<OperandModulus> OperandModuli::weights(std::size_t fractions) const {
    std::vector<OperandModulus> found;
    for (const std::uint64_t p : moduli_) {
        std::uint64_t rest = 1;  // W / p modulo p
        for (const std::uint64_t other : moduli_) rest = other == p ? rest : rest * other % p;
        const u128 numerator = inverse_mod(rest, p);
        OperandModulus m;
        m.p = static_cast<double>(p);
        m.inverse = 1 / m.p;
        const u128 scaled = numerator << 64;
        m.weights[0] = static_cast<std::uint64_t>((scaled + (fractions == 1 ? p / 2 : 0)) / p);
        m.weights[1] = static_cast<std::uint64_t>((((scaled % p) << kSecondFractionBits) + p / 2) / p);
        found.push_back(m);
    }
    return found;
}

bool OperandModuli::all_below(std::size_t word, const MatrixView& view) const {
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < count_of(word); ++i) {
        most |= (of_word(word)[i] - std::uint64_t{1}) << (8 * i);
    }
    const Lines lines(view);
    const auto* const entries = static_cast<const std::uint64_t*>(view.data);
    std::atomic<bool> good{true};
    lines.each([&](std::ptrdiff_t start, std::size_t) {
        constexpr std::uint64_t kTops = 0x8080808080808080;
        std::uint64_t above = 0;  // the top bit of each byte: those that exceed the byte of `most`
        for (std::size_t i = 0; i < lines.length; ++i) {
            const std::uint64_t entry = entries[start + static_cast<std::ptrdiff_t>(i) * lines.along];
            const std::uint64_t differences = (most | kTops) - (entry & ~kTops);
            above |= (~most & entry) | (~(most ^ entry) & ~differences);
        }
        if ((above & kTops) != 0) good = false;
    });
    return good;
}

void operand_gemm(const std::vector<MatrixView>& a, const std::vector<MatrixView>& b,
                  const OperandModuli& moduli, const std::vector<MatrixSpan>& c) {
    const std::size_t rows = c[0].rows, cols = c[0].cols, depth = a[0].cols;
    if (depth > kMostOperandDepth) {
        throw std::invalid_argument("x: expected sums of at most 2^24 products, got " +
                                    std::to_string(depth));
    }
    const std::vector<OperandModulus> weights = moduli.weights(c.size());
    clear(c);
    if (rows == 0 || cols == 0 || depth == 0) return;
    if (gemm_kernels().byte_sums == nullptr) return by_definition(a, b, moduli, weights, c);
    std::vector<MatrixView> transposed;
    for (const MatrixView& x : a) transposed.push_back(x.transposed());
    const int planes = static_cast<int>(moduli.count());
    const std::size_t most_depth = std::min(depth, kOperandDepth);
    Left left(planes, std::min(rows, kOperandRows), most_depth);
    Right right(planes, std::min(cols, kOperandCols), most_depth);
    const Tiles tiles(left, right, weights);
    for (std::size_t p = 0; p < depth; p += kOperandDepth) {
        const std::size_t count = std::min(kOperandDepth, depth - p);
        left.resize(count);
        right.resize(count);
        for (std::size_t col = 0; col < cols; col += kOperandCols) {
            pack(right, b, moduli, false, p, col, count, kOperandCols);
            for (std::size_t row = 0; row < rows; row += kOperandRows) {
                pack(left, transposed, moduli, true, p, row, count, kOperandRows);
                std::vector<MatrixSpan> region;
                for (const MatrixSpan& fraction : c) {
                    region.push_back(fraction.block(row, col, kOperandRows, kOperandCols));
                }
                const std::size_t panels = ceil_div(region[0].rows, kByteRows);
                const std::size_t blocks = ceil_div(panels, kBlockPanels);
                const std::size_t tasks = blocks * ceil_div(region[0].cols, kByteCols);
                const std::size_t products = region[0].rows * region[0].cols * count * moduli.count();
                const int threads = threads_for_work(tasks, products / kBytesSpeed);
                parallel_for(tasks, threads, [&](std::size_t task, int) {
                    const std::size_t first = task % blocks * kBlockPanels;
                    tiles.add(region, first, std::min(kBlockPanels, panels - first), task / blocks);
                });
            }
        }
    }
}

}  // namespace cipherblas::gemm
