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

// As few passes as there can be over `layers` layers from `first` on, of nearly equal length, in the order of the
// transform; reduced before words would overflow, and at the end if `reduces`.
std::vector<Pass> make_passes(int first, int layers, bool inverse, bool reduces, int unreduced) {
    const int count = (layers + kPassLayers - 1) / kPassLayers;
    std::vector<Pass> passes;
    for (int i = 0; i < count; ++i) {
        const int begin = (layers * i + count - 1) / count;
        const int end = (layers * (i + 1) + count - 1) / count;
        passes.push_back({first + begin, end - begin, false});
    }
    if (inverse) std::reverse(passes.begin(), passes.end());
    int done = 0;  // since the last reduction
    for (std::size_t i = 0; i < passes.size(); ++i) {
        if (done + passes[i].count > unreduced) {
            passes[i - 1].reduces = true;
            done = 0;
        }
        done += passes[i].count;
    }
    if (!passes.empty()) passes.back().reduces = reduces;
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

// Which groups of each pass are run, and where their rows are. By default all of them, as they are.
class Rows {
  public:
    explicit Rows(int log_rows) : log_rows_(log_rows) {}
    virtual ~Rows() = default;

    virtual std::size_t groups(const Pass& pass) const { return std::size_t{1} << (log_rows_ - pass.count); }
    virtual std::size_t group(const Pass&, std::size_t task) const { return task; }
    virtual std::size_t place(std::size_t row) const { return row; }

  protected:
    int log_rows_;
};

// Those of the classes first, ..., first + count - 1 of rows modulo `classes`.
class Classes final : public Rows {
  public:
    Classes(int log_rows, int log_parts, std::size_t first, std::size_t count)
        : Rows(log_rows), log_classes_(log_rows - log_parts), first_(first), count_(count) {}

    std::size_t groups(const Pass& pass) const override {
        return (std::size_t{1} << (log_rows_ - log_classes_ - pass.count)) * count_;
    }
    std::size_t group(const Pass&, std::size_t task) const override {
        return (task / count_ << log_classes_) + first_ + task % count_;
    }
    std::size_t place(std::size_t row) const override {
        const std::size_t mask = (std::size_t{1} << log_classes_) - 1;
        return (row >> log_classes_) * count_ + (row & mask) - first_;
    }

  private:
    int log_classes_;
    std::size_t first_, count_;
};

// Those of some blocks.
class Blocks final : public Rows {
  public:
    Blocks(int log_rows, int log_parts, std::span<const std::size_t> blocks)
        : Rows(log_rows),
          log_block_(log_rows - log_parts),
          blocks_(blocks),
          index_(std::size_t{1} << log_parts) {
        for (std::size_t b = 0; b < blocks.size(); ++b) index_[blocks[b]] = b;
    }

    std::size_t groups(const Pass& pass) const override {
        return blocks_.size() << (log_block_ - pass.count);
    }
    std::size_t group(const Pass& pass, std::size_t task) const override {
        const int log_groups = log_block_ - pass.count;
        const std::size_t mask = (std::size_t{1} << log_groups) - 1;
        return (blocks_[task >> log_groups] << log_groups) + (task & mask);
    }
    std::size_t place(std::size_t row) const override {
        const std::size_t mask = (std::size_t{1} << log_block_) - 1;
        return (index_[row >> log_block_] << log_block_) + (row & mask);
    }

  private:
    int log_block_;
    std::span<const std::size_t> blocks_;
    std::vector<std::size_t> index_;
};

// The pass over one group. Rows are read once and written once: what is between lies in the workspace.
void run_group(const Group& group, const Rows& rows, const RowArray& array, bool is_first, const Pass& pass,
               bool inverse, const Word* zero, Word* workspace) {
    std::array<const Word*, kGroupRows> in{};
    std::array<Word*, kGroupRows> out{}, spare{}, other{};
    for (std::size_t i = 0; i < group.rows(); ++i) {
        const std::size_t row = rows.place(group.row(i));
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

void run(std::span<const RowArray> arrays, const Rows& rows, const std::vector<Pass>& passes, int log_rows,
         bool inverse) {
    std::size_t longest = 0;
    for (const RowArray& array : arrays) longest = std::max(longest, array.n);
    const Buffer zero = Buffer::of_words(longest);
    std::fill_n(zero.words(), longest, Word{0});
    const std::size_t words = 2 * kGroupRows * (longest + kRowPadding);
    bool is_first = true;
    for (const Pass& pass : passes) {
        const std::size_t groups = rows.groups(pass);
        const std::size_t tasks = arrays.size() * groups;
        const int threads = threads_for(tasks);
        const Buffer workspace = Buffer::of_words(static_cast<std::size_t>(threads) * words);
        parallel_for(tasks, threads, [&](std::size_t task, int thread) {
            run_group(Group(pass, rows.group(pass, task % groups), log_rows), rows, arrays[task / groups],
                      is_first, pass, inverse, zero.words(),
                      workspace.words() + static_cast<std::size_t>(thread) * words);
        });
        is_first = false;
    }
}

}  // namespace

std::uint64_t row_exponent(std::size_t position, int log_rows) {
    return root_exponent(log_rows, position, log_rows);
}

std::size_t row_position(std::uint64_t exponent, int log_rows) {
    return bit_reverse(static_cast<std::uint32_t>(exponent / 2), log_rows);
}

void transform_rows(std::span<const RowArray> arrays, int log_rows, bool inverse, bool reduces,
                    int unreduced) {
    run(arrays, Rows(log_rows), make_passes(0, log_rows, inverse, reduces, unreduced), log_rows, inverse);
}

void transform_classes(std::span<const RowArray> arrays, int log_rows, int log_parts, std::size_t first,
                       std::size_t count, bool inverse, int unreduced) {
    const bool reduces = inverse || log_rows > unreduced;
    run(arrays, Classes(log_rows, log_parts, first, count),
        make_passes(0, log_parts, inverse, reduces, unreduced), log_rows, inverse);
}

void transform_blocks(std::span<const RowArray> arrays, int log_rows, int log_parts,
                      std::span<const std::size_t> blocks, bool inverse, int unreduced) {
    const bool reduces = inverse && log_rows > unreduced;
    run(arrays, Blocks(log_rows, log_parts, blocks),
        make_passes(log_parts, log_rows - log_parts, inverse, reduces, unreduced), log_rows, inverse);
}

}  // namespace cipherblas
