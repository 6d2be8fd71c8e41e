#include "rlwe/row_switch.h"

#include <cstring>
#include <memory>
#include <numeric>

#include "ring/kernels.h"
#include "ring/threads.h"

namespace cipherblas {
namespace {

// Positions in the basis of the first `limbs` q primes and the special primes.
std::vector<int> positions(const Context& context, int limbs) {
    std::vector<int> all(static_cast<std::size_t>(limbs + context.num_p()));
    std::iota(all.begin(), all.begin() + limbs, 0);
    std::iota(all.begin() + limbs, all.end(), context.num_q());
    return all;
}

}  // namespace

RowDigits::RowDigits(const Context& context, int limbs)
    : context_(&context),
      limbs_(limbs),
      digits_(context.digits(limbs)),
      rows_(limbs + context.num_p()),
      input_(Buffer::of_words(static_cast<std::size_t>(limbs) * context.n())),
      residues_(Buffer::of_words(static_cast<std::size_t>(context.alpha()) * context.n())),
      extended_(Buffer::of_words(static_cast<std::size_t>(rows_ * digits_) * context.n())) {
    for (int row = 0; row < rows_; ++row) {
        for (int d = 0; d < digits_; ++d) {
            const bool own = row < limbs && context.owner(row) == d;
            const std::size_t place = static_cast<std::size_t>(row * digits_ + d) * context.n();
            pointers_.push_back(own ? input(row) : extended_.words() + place);
        }
    }
}

const std::uint64_t* const* RowDigits::at(int limb) const {
    return pointers_.data() + static_cast<std::size_t>(row(limb) * digits_);
}

void RowDigits::decompose() {
    const Kernels& k = kernels();
    const int parts = k.ntt_parts(context_->log_n());
    const std::size_t part_words = context_->n() / static_cast<std::size_t>(parts);
    for (int d = 0; d < digits_; ++d) extend(d);
    for (const int limb : positions(*context_, limbs_)) {
        std::vector<std::uint64_t*> begun;  // by the conversion
        for (int d = 0; d < digits_; ++d) {
            const std::size_t place = static_cast<std::size_t>(row(limb) * digits_ + d);
            if (pointers_[place] == extended_.words() + place * context_->n()) {
                begun.push_back(extended_.words() + place * context_->n());
            }
        }
        for (int part = 0; part < parts; ++part) {
            k.ntt_part(begun.data(), begun.data(), begun.size(), part, true, {}, context_->table(limb));
            for (std::uint64_t*& words : begun) words += part_words;
        }
        if (limb < limbs_) k.ntt(input(limb), context_->table(limb));
    }
}

// The digit modulo the limbs that are not its own, the transform begun.
void RowDigits::extend(int digit) {
    const std::size_t n = context_->n();
    const int begin = context_->digit_begin(digit);
    const int count = context_->digit_end(digit, limbs_) - begin;
    const BaseConversion& conversion = context_->conversion(begin, count, false);
    for (int i = 0; i < count; ++i) conversion.prepare_coefficients(residues_.words(), i, input(begin + i));
    std::vector<int> targets;
    std::vector<std::uint64_t*> out;
    for (const int limb : positions(*context_, limbs_)) {
        if (limb >= begin && limb < begin + count) continue;
        targets.push_back(limb);
        out.push_back(extended_.words() + static_cast<std::size_t>(row(limb) * digits_ + digit) * n);
    }
    conversion.convert(out.data(), targets.data(), static_cast<int>(targets.size()), residues_.words(), false,
                       nullptr);
}

RowProduct::RowProduct(const Context& context, int limbs)
    : context_(&context),
      limbs_(limbs),
      sums_(Buffer::of_words(2 * static_cast<std::size_t>(limbs + context.num_p()) * context.n())),
      scratch_(Buffer::of_words(context.n())),
      overflow_(Buffer::of_words(2 * context.n())),
      dropped_(Buffer::of_words(2 * static_cast<std::size_t>(context.num_p()) * context.n())) {}

void RowProduct::multiply(const RowDigits& digits, const SwitchingKeyView& key, int limb, int row) {
    key_b_.clear();
    key_a_.clear();
    for (int d = 0; d < digits.digits(); ++d) {
        key_b_.push_back(key.limb(d, 0, limb));
        key_a_.push_back(key.limb(d, 1, limb));
    }
    RotationTerm term;
    term.digits = digits.at(limb);
    term.key0 = key_b_.data();
    term.key1 = key_a_.data();
    term.digit_count = digits.digits();
    term.key_bits = key.bits(limb);
    kernels().accumulate_terms(sum(row, 0), sum(row, 1), &term, 1, false, 0, context_->n(),
                               context_->modulus(limb));
}

void RowProduct::run(const RowDigits& digits, const SwitchingKeyView& key, std::uint64_t* const* b,
                     std::uint64_t* const* a) {
    const Kernels& k = kernels();
    const std::size_t n = context_->n();
    const int specials = context_->num_p();
    const BaseConversion& conversion = context_->conversion(0, 0, true);
    const auto dropped = [&](int c) { return dropped_.words() + static_cast<std::size_t>(c * specials) * n; };
    const auto overflow = [&](int c) { return overflow_.words() + static_cast<std::size_t>(c) * n; };
    for (int j = 0; j < specials; ++j) {
        multiply(digits, key, context_->num_q() + j, limbs_ + j);
        for (int c = 0; c < 2; ++c) {
            conversion.prepare(dropped(c), j, {sum(limbs_ + j, c), nullptr, true}, false, scratch_.words());
        }
    }
    for (int c = 0; c < 2; ++c) conversion.overflow(overflow(c), dropped(c), 0, n);
    for (int i = 0; i < limbs_; ++i) {
        multiply(digits, key, i, i);
        for (int c = 0; c < 2; ++c) {
            k.intt(sum(i, c), context_->table(i));
            conversion.convert_coefficients(scratch_.words(), i, dropped(c), overflow(c));
            k.add_mul_scalar(c == 0 ? b[i] : a[i], sum(i, c), scratch_.words(), conversion.inverse(i), n,
                             context_->modulus(i));
        }
    }
}

void relinearise_rows(const Context& context, int limbs, std::size_t rows, const RowsView& a,
                      const RowsView& b, const SwitchingKeyView& key, std::uint64_t* out_a,
                      std::uint64_t* out_b) {
    const std::size_t n = context.n();
    struct Worker {
        RowDigits digits;
        RowProduct product;
        std::vector<std::uint64_t*> b, a;
    };
    const int threads = threads_for(rows);
    std::vector<Worker> workers;
    for (int t = 0; t < threads; ++t) {
        workers.push_back({RowDigits(context, limbs), RowProduct(context, limbs), {}, {}});
    }
    parallel_for(rows, threads, [&](std::size_t row, int thread) {
        Worker& worker = workers[static_cast<std::size_t>(thread)];
        worker.a.clear();
        worker.b.clear();
        for (int i = 0; i < limbs; ++i) {
            std::memcpy(worker.digits.input(i), a.row(i, row), n * sizeof(std::uint64_t));
            const std::size_t place = (static_cast<std::size_t>(i) * rows + row) * n;
            worker.a.push_back(out_a + place);
            worker.b.push_back(out_b + place);
        }
        worker.digits.decompose();
        worker.product.run(worker.digits, key, worker.b.data(), worker.a.data());
        for (int i = 0; i < limbs; ++i) {
            std::uint64_t* const sum = worker.a[static_cast<std::size_t>(i)];
            kernels().add(sum, sum, b.row(i, row), n, context.modulus(i));
        }
    });
}

void switch_rows(const Context& context, int limbs, const RowsView& a,
                 const std::vector<SwitchingKeyView>& keys, std::size_t columns, std::uint64_t* out_a,
                 std::uint64_t* out_b) {
    const std::size_t n = context.n();
    RowDigits digits(context, limbs);
    for (int i = 0; i < limbs; ++i) std::memcpy(digits.input(i), a.row(i, 0), n * sizeof(std::uint64_t));
    digits.decompose();
    const std::size_t count = keys.size();
    const int threads = threads_for(count);
    std::vector<RowProduct> products;
    for (int t = 0; t < threads; ++t) products.emplace_back(context, limbs);
    const std::size_t whole = static_cast<std::size_t>(limbs) * n;
    const Buffer b_rows = Buffer::of_words(static_cast<std::size_t>(threads) * whole);
    parallel_for(count, threads, [&](std::size_t row, int thread) {
        std::vector<std::uint64_t*> to_a, to_b;
        for (std::size_t i = 0; i < static_cast<std::size_t>(limbs); ++i) {
            to_a.push_back(out_a + (i * count + row) * n);
            to_b.push_back(b_rows.words() + static_cast<std::size_t>(thread) * whole + i * n);
        }
        products[static_cast<std::size_t>(thread)].run(digits, keys[row], to_b.data(), to_a.data());
        for (std::size_t i = 0; i < to_b.size(); ++i) {
            std::memcpy(out_b + (i * count + row) * columns, to_b[i], columns * sizeof(std::uint64_t));
        }
    });
}

}  // namespace cipherblas
