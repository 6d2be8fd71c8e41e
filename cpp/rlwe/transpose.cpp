#include "rlwe/transpose.h"

#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "ring/automorphism.h"
#include "ring/kernels.h"
#include "ring/row_transform.h"
#include "ring/threads.h"

namespace cipherblas {
namespace {

using Word = std::uint64_t;

// One row of all limbs, of the transform's arrays or of a workspace.
struct RowPointers {
    std::vector<Word*> a, b;
};

// Applies automorphisms to rows; the workspace of one thread.
class RowAutomorphism {
  public:
    RowAutomorphism(const Context& context, const TransposePlan& plan,
                    const std::vector<SwitchingKeyView>& keys, int limbs)
        : context_(&context),
          plan_(&plan),
          keys_(&keys),
          limbs_(limbs),
          columns_(std::size_t{1} << plan.log_rows),
          digits_(context, limbs),
          product_(context, limbs),
          switched_(Buffer::of_words(static_cast<std::size_t>(limbs) * context.n())),
          kept_(Buffer::of_words(static_cast<std::size_t>(limbs) * columns_)) {
        for (int i = 0; i < limbs; ++i) {
            const Modulus& m = context.modulus(i);
            shares_.push_back(inv_mod(columns_ % m.q, m));
            switched_rows_.push_back(switched_.words() + static_cast<std::size_t>(i) * context.n());
        }
    }

    // to = the row at `position`, from signed words, divided by d, after its automorphisms. `from` and `to`
    // may be the same row.
    void run(std::size_t position, const RowPointers& from, const RowPointers& to) {
        const std::vector<int>& steps = plan_->steps[position];
        if (steps.empty()) {
            for (std::size_t i = 0; i < from.a.size(); ++i) {
                divide(to.a[i], from.a[i], context_->n(), static_cast<int>(i));
                divide(to.b[i], from.b[i], columns_, static_cast<int>(i));
            }
            return;
        }
        for (std::size_t s = 0; s < steps.size(); ++s) {
            const std::size_t key = static_cast<std::size_t>(steps[s]);
            turn(plan_->elements[key], s == 0 ? from : to, s == 0);
            product_.run(digits_, (*keys_)[key], switched_rows_.data(), to.a.data());
            collect(to);
        }
    }

  private:
    Word* kept(int i) const { return kept_.words() + static_cast<std::size_t>(i) * columns_; }

    void divide(Word* out, const Word* in, std::size_t count, int i) const {
        reduce(out, in, count, i);
        kernels().mul_scalar(out, out, shares_[static_cast<std::size_t>(i)], count, context_->modulus(i));
    }
    void reduce(Word* out, const Word* in, std::size_t count, int i) const {
        kernels().from_signed(out, reinterpret_cast<const std::int64_t*>(in), count, context_->modulus(i));
    }

    // The digits of a(X^element), and b(X^element).
    void turn(std::uint64_t element, const RowPointers& from, bool divides) {
        for (int i = 0; i < limbs_; ++i) {
            const std::size_t limb = static_cast<std::size_t>(i);
            substitute_power(digits_.input(i), from.a[limb], element, context_->log_n());
            substitute_power(kept(i), from.b[limb], element, plan_->log_rows);
            if (divides) {
                divide(digits_.input(i), digits_.input(i), context_->n(), i);
                divide(kept(i), kept(i), columns_, i);
            } else {
                reduce(digits_.input(i), digits_.input(i), context_->n(), i);
                reduce(kept(i), kept(i), columns_, i);
            }
        }
        digits_.decompose();
    }

    // b(X^element) and the switched part at the powers of Y.
    void collect(const RowPointers& to) const {
        const std::size_t stride = context_->n() / columns_;
        for (int i = 0; i < limbs_; ++i) {
            const std::size_t limb = static_cast<std::size_t>(i);
            Word* const switched = switched_rows_[limb];
            for (std::size_t j = 0; stride > 1 && j < columns_; ++j) switched[j] = switched[j * stride];
            kernels().add(to.b[limb], kept(i), switched, columns_, context_->modulus(i));
        }
    }

    const Context* context_;
    const TransposePlan* plan_;
    const std::vector<SwitchingKeyView>* keys_;
    int limbs_;
    std::size_t columns_;
    RowDigits digits_;
    RowProduct product_;
    Buffer switched_;  // [limbs][n]
    Buffer kept_;      // [limbs][d]
    std::vector<Word*> switched_rows_;
    std::vector<Word> shares_;  // 1/d
};

// The arrays of the result, rows of which the transforms and automorphisms work on in place: of all positions, or of
// those in some blocks.
struct Arrays {
    Word* a;
    Word* b;
    int limbs;
    std::size_t rows, columns, n;
    std::vector<std::size_t> positions;

    RowPointers row(std::size_t index) const {
        RowPointers pointers;
        for (std::size_t i = 0; i < static_cast<std::size_t>(limbs); ++i) {
            pointers.a.push_back(a + (i * rows + index) * n);
            pointers.b.push_back(b + (i * rows + index) * columns);
        }
        return pointers;
    }
};

// g_v = h_u(X^v) for all rows. Since u v = 1, the places of u and v exchange their rows.
void apply_automorphisms(const Context& context, const TransposePlan& plan,
                         const std::vector<SwitchingKeyView>& keys, const Arrays& arrays) {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;  // of rows
    const std::uint64_t mask = 2 * arrays.columns - 1;
    std::vector<std::size_t> index(arrays.columns);
    for (std::size_t i = 0; i < arrays.rows; ++i) index[arrays.positions[i]] = i;
    for (const std::size_t p : arrays.positions) {
        const std::size_t other =
            row_position(inverse_mod_power_of_two(row_exponent(p, plan.log_rows), mask), plan.log_rows);
        if (p <= other) pairs.emplace_back(index[p], index[other]);
    }
    const int threads = threads_for(pairs.size());
    std::vector<RowAutomorphism> workers;
    std::vector<Buffer> rooms;
    const std::size_t words = static_cast<std::size_t>(arrays.limbs) * arrays.n;
    for (int t = 0; t < threads; ++t) {
        workers.emplace_back(context, plan, keys, arrays.limbs);
        rooms.push_back(Buffer::of_words(2 * words));
    }
    parallel_for(pairs.size(), threads, [&](std::size_t task, int thread) {
        RowAutomorphism& worker = workers[static_cast<std::size_t>(thread)];
        const auto [one, other] = pairs[task];
        const RowPointers first = arrays.row(one), second = arrays.row(other);
        if (one == other) return worker.run(arrays.positions[one], first, first);
        Word* const room = rooms[static_cast<std::size_t>(thread)].words();
        RowPointers held;
        for (std::size_t i = 0; i < first.a.size(); ++i) {
            held.a.push_back(room + i * arrays.n);
            held.b.push_back(room + words + i * arrays.n);
        }
        worker.run(arrays.positions[one], first, held);
        worker.run(arrays.positions[other], second, first);
        for (std::size_t i = 0; i < first.a.size(); ++i) {
            std::memcpy(second.a[i], held.a[i], arrays.n * sizeof(Word));
            std::memcpy(second.b[i], held.b[i], arrays.columns * sizeof(Word));
        }
    });
}

}  // namespace

void transpose_rows(const Context& context, const TransposePlan& plan, int limbs, std::size_t rows,
                    const RowsView& a, const RowsView& b, const std::vector<SwitchingKeyView>& keys,
                    std::uint64_t* out_a, std::uint64_t* out_b) {
    const std::size_t d = std::size_t{1} << plan.log_rows;
    std::vector<RowArray> arrays;
    for (int i = 0; i < limbs; ++i) {
        const std::size_t limb = static_cast<std::size_t>(i);
        const Modulus* const m = &context.modulus(i);
        arrays.push_back({a.row(i, 0), rows, a.row_stride, out_a + limb * d * context.n(), context.n(), m});
        arrays.push_back({b.row(i, 0), rows, b.row_stride, out_b + limb * d * d, d, m});
    }
    transform_rows(arrays, plan.log_rows, false, false);
    std::vector<std::size_t> positions(d);
    std::iota(positions.begin(), positions.end(), std::size_t{0});
    apply_automorphisms(context, plan, keys, {out_a, out_b, limbs, d, d, context.n(), std::move(positions)});
    for (RowArray& array : arrays) {
        array = {array.out, d, static_cast<std::ptrdiff_t>(array.n), array.out, array.n, array.modulus};
    }
    transform_rows(arrays, plan.log_rows, true, true);
}

std::size_t inverse_block(std::size_t block, int log_parts) {
    const std::uint64_t mask = (std::uint64_t{2} << log_parts) - 1;
    return row_position(inverse_mod_power_of_two(row_exponent(block, log_parts), mask), log_parts);
}

void transpose_blocks(const Context& context, const TransposePlan& plan, int limbs, int log_parts,
                      const std::vector<std::size_t>& blocks, const std::vector<SwitchingKeyView>& keys,
                      std::uint64_t* a, std::uint64_t* b) {
    const std::size_t d = std::size_t{1} << plan.log_rows, height = d >> log_parts;
    const std::size_t rows = blocks.size() * height;
    std::vector<std::size_t> positions;
    for (const std::size_t block : blocks) {
        for (std::size_t i = 0; i < height; ++i) positions.push_back(block * height + i);
    }
    std::vector<RowArray> arrays;
    for (int i = 0; i < limbs; ++i) {
        const std::size_t limb = static_cast<std::size_t>(i);
        for (auto [words, n] :
             {std::pair{a + limb * rows * context.n(), context.n()}, {b + limb * rows * d, d}}) {
            arrays.push_back({words, rows, static_cast<std::ptrdiff_t>(n), words, n, &context.modulus(i)});
        }
    }
    transform_blocks(arrays, plan.log_rows, log_parts, blocks, false);
    apply_automorphisms(context, plan, keys, {a, b, limbs, rows, d, context.n(), std::move(positions)});
    transform_blocks(arrays, plan.log_rows, log_parts, blocks, true);
}

}  // namespace cipherblas
