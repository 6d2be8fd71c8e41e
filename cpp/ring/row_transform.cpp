#include "ring/row_transform.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "ring/bit_reverse.h"
#include "ring/kernels.h"
#include "ring/pool.h"
#include "ring/threads.h"

namespace cipherblas {
namespace {

using Word = std::uint64_t;

constexpr std::size_t kGroupRows = std::size_t{1} << kPassLayers;
// Between the rows of a workspace, against rows that all fall into the same lines of a cache.
constexpr std::size_t kRowPadding = 72;

// Layers [first, first + count) of the transform, counted from the widest.
struct Pass {
    int first, count;
    bool reduces;
};

// As few passes as there can be, of nearly equal length, in the order of the transform.
std::vector<Pass> make_passes(int log_rows, bool inverse, bool reduces) {
    const int count = std::max((log_rows + kPassLayers - 1) / kPassLayers, 1);
    std::vector<Pass> passes;
    for (int i = 0; i < count; ++i) {
        const int begin = (log_rows * i + count - 1) / count;
        const int end = (log_rows * (i + 1) + count - 1) / count;
        passes.push_back({begin, end - begin, false});
    }
    if (inverse) std::reverse(passes.begin(), passes.end());
    passes.back().reduces = reduces;
    return passes;
}

// Z^(2m) - Y^(2e) = (Z^m - Y^e)(Z^m + Y^e): block `block` of 2^layer belongs to the factor with this e.
std::uint64_t root_exponent(int layer, std::size_t block, int log_rows) {
    const std::uint64_t odd = 1 + 2 * bit_reverse(static_cast<std::uint32_t>(block), layer);
    return odd << (log_rows - layer);
}

// A group of 2^count rows, `distance` apart, that the layers of a pass combine.
class Group {
  public:
    Group(const Pass& pass, std::size_t number, int log_rows)
        : pass_(pass),
          log_rows_(log_rows),
          distance_(std::size_t{1} << (log_rows - pass.first - pass.count)) {
        block_ = number / distance_;
        base_ = (block_ << (log_rows - pass.first)) + number % distance_;
    }

    std::size_t rows() const { return std::size_t{1} << pass_.count; }
    std::size_t row(std::size_t i) const { return base_ + i * distance_; }
    int steps() const { return (pass_.count + 1) / 2; }

    // Step `step` of the layers, by butterflies of four rows and, for the last of an odd number, of two.
    void run(int step, bool inverse, const Word* const* in, Word* const* out, std::size_t n) const {
        const int done = inverse ? 2 * (steps() - 1 - step) : 2 * step;
        const int log_radix = std::min(pass_.count - done, 2);
        const std::size_t radix = std::size_t{1} << log_radix;
        const std::size_t size = rows() >> done;
        const std::size_t part = size >> log_radix;
        const std::size_t scale = n >> log_rows_;
        for (std::size_t local = 0; local < rows() / size; ++local) {
            const std::size_t block = (block_ << done) + local;
            const std::uint64_t e =
                root_exponent(pass_.first + done + log_radix, block << log_radix, log_rows_) * scale;
            const std::size_t shift[] = {e % (2 * n), 2 * e % (2 * n), 3 * e % (2 * n)};
            for (std::size_t i = local * size; i < local * size + part; ++i) {
                std::array<const Word*, 4> from{};
                std::array<Word*, 4> to{};
                for (std::size_t r = 0; r < radix; ++r) {
                    from[r] = in[i + r * part];
                    to[r] = out[i + r * part];
                }
                kernels().row_butterfly(to.data(), from.data(), shift, static_cast<int>(radix), inverse, n);
            }
        }
    }

  private:
    Pass pass_;
    int log_rows_;
    std::size_t distance_, block_ = 0, base_ = 0;
};

// The pass over one group. Rows are read once and written once: what is between lies in the workspace.
void run_group(const Group& group, const RowArray& array, bool is_first, const Pass& pass, bool inverse,
               const Word* zero, Word* workspace) {
    std::array<const Word*, kGroupRows> in{};
    std::array<Word*, kGroupRows> out{}, spare{}, other{};
    for (std::size_t i = 0; i < group.rows(); ++i) {
        const std::size_t row = group.row(i);
        out[i] = array.out + row * array.n;
        in[i] = !is_first             ? out[i]
                : row < array.in_rows ? array.in + static_cast<std::ptrdiff_t>(row) * array.in_stride
                                      : zero;
        spare[i] = workspace + i * (array.n + kRowPadding);
        other[i] = spare[i] + kGroupRows * (array.n + kRowPadding);
    }
    const bool overwrites = !is_first || array.in == array.out;
    std::array<const Word*, kGroupRows> from = in;
    for (int step = 0; step < group.steps(); ++step) {
        const bool last = step + 1 == group.steps();
        // Its input may be the rows that it would overwrite.
        const bool direct = last && (step > 0 || !overwrites);
        const std::array<Word*, kGroupRows>& to = direct ? out : step % 2 == 0 ? spare : other;
        group.run(step, inverse, from.data(), to.data(), array.n);
        std::copy(to.begin(), to.end(), from.begin());
    }
    for (std::size_t i = 0; i < group.rows(); ++i) {
        if (pass.reduces) {
            kernels().from_signed(out[i], reinterpret_cast<const std::int64_t*>(from[i]), array.n,
                                  *array.modulus);
        } else if (from[i] != out[i]) {
            std::memcpy(out[i], from[i], array.n * sizeof(Word));
        }
    }
}

}  // namespace

std::uint64_t row_exponent(std::size_t position, int log_rows) {
    return root_exponent(log_rows, position, log_rows);
}

std::size_t row_position(std::uint64_t exponent, int log_rows) {
    return bit_reverse(static_cast<std::uint32_t>(exponent / 2), log_rows);
}

void transform_rows(std::span<const RowArray> arrays, int log_rows, bool inverse, bool reduces) {
    std::size_t longest = 0;
    for (const RowArray& array : arrays) longest = std::max(longest, array.n);
    const Buffer zero = Buffer::of_words(longest);
    std::fill_n(zero.words(), longest, Word{0});
    const std::size_t words = 2 * kGroupRows * (longest + kRowPadding);
    bool is_first = true;
    for (const Pass& pass : make_passes(log_rows, inverse, reduces)) {
        const std::size_t groups = std::size_t{1} << (log_rows - pass.count);
        const std::size_t tasks = arrays.size() * groups;
        const int threads = threads_for(tasks);
        const Buffer workspace = Buffer::of_words(static_cast<std::size_t>(threads) * words);
        parallel_for(tasks, threads, [&](std::size_t task, int thread) {
            run_group(Group(pass, task % groups, log_rows), arrays[task / groups], is_first, pass, inverse,
                      zero.words(), workspace.words() + static_cast<std::size_t>(thread) * words);
        });
        is_first = false;
    }
}

}  // namespace cipherblas
