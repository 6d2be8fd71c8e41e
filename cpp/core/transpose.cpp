// Encrypted matrices by coefficients: transposition and key switching of rows.
#include "rlwe/transpose.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <bit>
#include <cstring>
#include <optional>
#include <tuple>

#include "core/arrays.h"
#include "ring/row_transform.h"

namespace cipherblas::core {
namespace {

using namespace nb::literals;
using Pair = std::tuple<Words, Words>;

// Keys that serve `limbs` limbs.
class SwitchingKeys {
  public:
    SwitchingKeys(const Context& context, const std::vector<AnyArray>& arrays, int limbs) {
        keys_.reserve(arrays.size());
        for (const AnyArray& array : arrays) {
            keys_.emplace_back(context, array, "keys");
            views.push_back(keys_.back().view());
            check_limbs(views.back(), limbs);
        }
    }
    static void check_limbs(const SwitchingKeyView& key, int limbs) {
        if (key.limbs < limbs) {
            fail("keys", "keys for at least " + std::to_string(limbs) + " limbs",
                 "one for " + std::to_string(key.limbs));
        }
    }
    std::vector<SwitchingKeyView> views;

  private:
    std::vector<SwitchingKey> keys_;
};

// Where rows go: a new array, or one that was given, which may be the one that is read.
class RowsOutput {
  public:
    RowsOutput(const nb::object& out, const char* what, const AnyArray& from, const char* source)
        : shape_({from.shape(0), from.shape(1), from.shape(2)}), given_(out) {
        if (out.is_none()) {
            made_.emplace(shape_);
            data_ = made_->data();
            return;
        }
        data_ = static_cast<std::uint64_t*>(writable(out, what));
        const AnyArray array = nb::cast<AnyArray>(out);
        const Argument<std::uint64_t, Layout::kPacked> packed(
            array, what, {length(shape_[0]), length(shape_[1]), length(shape_[2])});
        if (packed.data() != data_) fail(what, "a C-contiguous, 64-byte aligned array", "another layout");
        if (array.data() != from.data() && may_overlap(array, from)) {
            fail(what, std::string(source) + " itself, or memory of its own", "a part of it");
        }
    }
    std::uint64_t* data() const { return data_; }
    nb::object object() { return made_ ? nb::cast(made_->array()) : given_; }

  private:
    std::vector<std::size_t> shape_;
    std::optional<Result<std::uint64_t>> made_;
    nb::object given_;
    std::uint64_t* data_ = nullptr;
};

// Nothing where a row is in its place.
void copy_row(std::uint64_t* to, const std::uint64_t* from, std::size_t words) {
    if (to != from) std::memcpy(to, from, words * sizeof(std::uint64_t));
}

constexpr int kMaxLogRows = 17;  // log2 of the largest ring degree

// log2 of the number of rows of a transposition, of at most `most` rows.
int log_rows(std::size_t d, const char* what, std::size_t most = std::size_t{1} << kMaxLogRows) {
    if (!std::has_single_bit(d) || d < 8 || d > most) {
        fail(what, "a power of two from 8 to " + std::to_string(most), std::to_string(d));
    }
    return std::countr_zero(d);
}

std::tuple<std::vector<std::uint64_t>, std::size_t> transpose_plan(std::size_t d, const std::string& policy) {
    const TransposePlan plan(log_rows(d, "d"), transpose_policy(policy));
    return {plan.elements, plan.switches()};
}

Pair transpose(const Context& context, const AnyArray& a, const AnyArray& b,
               const std::vector<AnyArray>& keys, const std::string& policy) {
    const CoefficientRows a_rows(context, a, "a", {kAny, kAny, length(context.n())});
    const int limbs = a_rows.limbs();
    const CoefficientRows b_rows(context, b, "b", {limbs, length(a_rows.rows()), kAny});
    const std::size_t d = b_rows.columns();
    const TransposePlan plan(log_rows(d, "columns of b", context.n()), transpose_policy(policy));
    if (a_rows.rows() > d) {
        fail("a", "at most " + std::to_string(d) + " rows, the columns of b", shape_text(a));
    }
    if (keys.size() != plan.elements.size()) {
        fail("keys", std::to_string(plan.elements.size()) + ", in the order of transpose_plan",
             std::to_string(keys.size()));
    }
    const SwitchingKeys switching(context, keys, limbs);
    Result<std::uint64_t> out_a({static_cast<std::size_t>(limbs), d, context.n()});
    Result<std::uint64_t> out_b({static_cast<std::size_t>(limbs), d, d});
    {
        const nb::gil_scoped_release release;
        transpose_rows(context, plan, limbs, a_rows.rows(), a_rows.view(), b_rows.view(), switching.views,
                       out_a.data(), out_b.data());
    }
    return {out_a.array(), out_b.array()};
}

// Of a transposition that several machines share.
int log_parts(std::size_t parts, int log_d) {
    if (!std::has_single_bit(parts) || parts < 2 || std::countr_zero(parts) > log_d) {
        fail("parts", "a power of two from 2 to " + std::to_string(std::size_t{1} << log_d),
             std::to_string(parts));
    }
    return std::countr_zero(parts);
}

void check_blocks(const std::vector<std::size_t>& blocks, int log_parts) {
    std::vector<bool> there(std::size_t{1} << log_parts);
    for (const std::size_t block : blocks) {
        if (block >= there.size() || there[block]) {
            fail("blocks", "different ones below " + std::to_string(there.size()), std::to_string(block));
        }
        there[block] = true;
    }
    for (const std::size_t block : blocks) {
        const std::size_t other = inverse_block(block, log_parts);
        if (!there[other])
            fail("blocks", "with block " + std::to_string(block) + " also " + std::to_string(other),
                 "without");
    }
}

std::vector<std::size_t> inverse_blocks(std::size_t parts) {
    std::vector<std::size_t> inverse;
    const int log = log_parts(parts, kMaxLogRows);
    for (std::size_t block = 0; block < parts; ++block) inverse.push_back(inverse_block(block, log));
    return inverse;
}

// For each row of some blocks the numbers, in plan.elements, of the keys that its automorphisms take.
std::vector<std::vector<int>> transpose_steps(std::size_t d, const std::string& policy, std::size_t parts,
                                              const std::vector<std::size_t>& blocks) {
    const int log_d = log_rows(d, "d");
    const TransposePlan plan(log_d, transpose_policy(policy));
    const int log = log_parts(parts, log_d);
    check_blocks(blocks, log);
    std::vector<std::vector<int>> found;
    for (const std::size_t block : blocks) {
        for (std::size_t i = 0; i < d >> log; ++i) found.push_back(plan.steps[block * (d >> log) + i]);
    }
    return found;
}

nb::object transpose_classes(const Context& context, const AnyArray& x, std::size_t d, std::size_t parts,
                             std::size_t first, bool inverse, const nb::object& out) {
    const CoefficientRows rows(context, x, "x", {kAny, kAny, kAny});
    const int log_d = log_rows(d, "d");
    const int log = log_parts(parts, log_d);
    const std::size_t n = rows.columns(), count = rows.rows() / parts;
    if (!std::has_single_bit(n) || n < d || n > context.n()) {
        fail("x", "a power of two of columns from d to " + std::to_string(context.n()), shape_text(x));
    }
    if (rows.rows() % parts != 0 || count > d >> log || first > (d >> log) - count) {
        fail("x", "rows of all parts, for classes below " + std::to_string(d >> log), shape_text(x));
    }
    RowsOutput made(out, "out", x, "x");
    std::vector<RowArray> arrays;
    for (int i = 0; i < rows.limbs(); ++i) {
        const RowsView view = rows.view();
        arrays.push_back({view.row(i, 0), rows.rows(), view.row_stride,
                          made.data() + static_cast<std::size_t>(i) * rows.rows() * n, n,
                          &context.modulus(i)});
    }
    {
        const nb::gil_scoped_release release;
        transform_classes(arrays, log_d, log, first, count, inverse);
    }
    return made.object();
}

std::tuple<nb::object, nb::object> transpose_blocks_of(const Context& context, const AnyArray& a,
                                                       const AnyArray& b, std::size_t parts,
                                                       const std::vector<std::size_t>& blocks,
                                                       const std::vector<std::optional<AnyArray>>& keys,
                                                       const std::string& policy, const nb::object& out_a,
                                                       const nb::object& out_b) {
    const CoefficientRows a_rows(context, a, "a", {kAny, kAny, length(context.n())});
    const int limbs = a_rows.limbs();
    const CoefficientRows b_rows(context, b, "b", {limbs, length(a_rows.rows()), kAny});
    const std::size_t d = b_rows.columns(), rows = a_rows.rows();
    const int log_d = log_rows(d, "columns of b", context.n());
    const TransposePlan plan(log_d, transpose_policy(policy));
    const int log = log_parts(parts, log_d);
    check_blocks(blocks, log);
    const std::size_t height = d >> log;
    if (rows != blocks.size() * height) {
        fail("a", std::to_string(blocks.size() * height) + " rows", shape_text(a));
    }
    if (keys.size() != plan.elements.size()) {
        fail("keys", std::to_string(plan.elements.size()) + ", in the order of transpose_plan, or None",
             std::to_string(keys.size()));
    }
    std::vector<AnyArray> given;
    std::vector<std::size_t> places;
    for (std::size_t key = 0; key < keys.size(); ++key) {
        if (!keys[key]) continue;
        given.push_back(*keys[key]);
        places.push_back(key);
    }
    const SwitchingKeys switching(context, given, limbs);
    std::vector<SwitchingKeyView> views(keys.size());
    for (std::size_t i = 0; i < places.size(); ++i) views[places[i]] = switching.views[i];
    for (const std::size_t block : blocks) {
        for (std::size_t i = 0; i < height; ++i) {
            for (const int step : plan.steps[block * height + i]) {
                const std::size_t key = static_cast<std::size_t>(step);
                if (!keys[key])
                    fail("keys", "a key for element " + std::to_string(plan.elements[key]), "None");
            }
        }
    }
    RowsOutput made_a(out_a, "out_a", a, "a"), made_b(out_b, "out_b", b, "b");
    {
        const nb::gil_scoped_release release;
        for (int i = 0; i < limbs; ++i) {
            for (std::size_t row = 0; row < rows; ++row) {
                const std::size_t place = static_cast<std::size_t>(i) * rows + row;
                copy_row(made_a.data() + place * context.n(), a_rows.view().row(i, row), context.n());
                copy_row(made_b.data() + place * d, b_rows.view().row(i, row), d);
            }
        }
        transpose_blocks(context, plan, limbs, log, blocks, views, made_a.data(), made_b.data());
    }
    return {made_a.object(), made_b.object()};
}

Pair relinearise(const Context& context, const AnyArray& a, const AnyArray& b, const AnyArray& key) {
    const std::int64_t n = length(context.n());
    const CoefficientRows a_rows(context, a, "a", {kAny, kAny, n});
    const int limbs = a_rows.limbs();
    const CoefficientRows b_rows(context, b, "b", {limbs, length(a_rows.rows()), n});
    const SwitchingKey switching(context, key, "key");
    SwitchingKeys::check_limbs(switching.view(), limbs);
    const std::vector<std::size_t> shape{static_cast<std::size_t>(limbs), a_rows.rows(), context.n()};
    Result<std::uint64_t> out_a(shape), out_b(shape);
    {
        const nb::gil_scoped_release release;
        relinearise_rows(context, limbs, a_rows.rows(), a_rows.view(), b_rows.view(), switching.view(),
                         out_a.data(), out_b.data());
    }
    return {out_a.array(), out_b.array()};
}

Pair switch_with(const Context& context, const AnyArray& a, const std::vector<AnyArray>& keys,
                 std::size_t columns) {
    const LimbsOfQ polynomial(context, a, "a");
    if (keys.empty()) fail("keys", "at least one", "none");
    if (columns < 1 || columns > context.n()) {
        fail("columns", "1 to " + std::to_string(context.n()), std::to_string(columns));
    }
    const int limbs = polynomial.limbs();
    const SwitchingKeys switching(context, keys, limbs);
    Result<std::uint64_t> out_a({static_cast<std::size_t>(limbs), keys.size(), context.n()});
    Result<std::uint64_t> out_b({static_cast<std::size_t>(limbs), keys.size(), columns});
    {
        const nb::gil_scoped_release release;
        switch_rows(context, limbs, {polynomial.view().data, polynomial.view().limb_stride, 0},
                    switching.views, columns, out_a.data(), out_b.data());
    }
    return {out_a.array(), out_b.array()};
}

}  // namespace

void bind_transpose_plan(nb::module_& m) {
    m.def("transpose_plan", &transpose_plan, "d"_a, "policy"_a,
          "The Galois elements whose keys Context.transpose_rows takes for d x d matrices, and how many key "
          "switches it does.\n\n"
          "policy: 'fast' (d - 1 keys, as many switches), 'light' (about 2 sqrt(d) keys, below 2 d "
          "switches) or\n"
          "'binary' (log2(d) keys, d log2(d) / 2 switches).");
    m.def("inverse_blocks", &inverse_blocks, "parts"_a,
          "For each of so many blocks of a transposition's rows the one with the inverse exponents, which it "
          "exchanges "
          "rows with.");
    m.def(
        "transpose_steps", &transpose_steps, "d"_a, "policy"_a, "parts"_a, "blocks"_a,
        "For each row of some of `parts` blocks the keys that it takes, by their numbers in transpose_plan.");
}

void bind_transpose(nb::class_<Context>& context) {
    context
        .def("transpose_rows", &transpose, "a"_a, "b"_a, "keys"_a, "policy"_a = "fast",
             "The transposed matrix, encrypted row by row like the given one (C-MT).\n\n"
             "a: (limbs, rows, N), b: (limbs, rows, d) coefficients in [0, q): row i has the phase a_i s + "
             "b_i, "
             "with its d\n"
             "entries at the powers of X^(N/d), of which alone b is given. rows <= d: what is missing is "
             "zero. Returns\n"
             "(limbs, d, N) and (limbs, d, d). keys: one for each element of transpose_plan(d, policy), in "
             "that order.")
        .def("transpose_classes", &transpose_classes, "x"_a, "d"_a, "parts"_a, "first"_a, "inverse"_a,
             "out"_a = nb::none(),
             "The first layers of a transposition's transform, or with `inverse` the last: on the rows t "
             "d/parts + "
             "first + j,\n"
             "which stand at t rows/parts + j. x: (limbs, rows, columns), in [0, q), or with `inverse` "
             "signed words; "
             "the\n"
             "result is the other way round. `out` may be x.")
        .def(
            "transpose_blocks", &transpose_blocks_of, "a"_a, "b"_a, "parts"_a, "blocks"_a, "keys"_a,
            "policy"_a, "out_a"_a = nb::none(), "out_b"_a = nb::none(),
            "What comes between: on some of `parts` blocks of rows, one after the other, signed words. "
            "keys: as in\n"
            "transpose_rows, or None where no row of these blocks takes it (transpose_steps). `out_a` may be "
            "a, and\n"
            "`out_b` b.")
        .def(
            "relinearise_rows", &relinearise, "a"_a, "b"_a, "key"_a,
            "The rows (a_i, b_i) times the secret, with the key of s^2; a, b: (limbs, rows, N) coefficients.")
        .def("switch_rows", &switch_with, "a"_a, "keys"_a, "columns"_a,
             "One polynomial a, (limbs, N) coefficients, switched with each key: (limbs, keys, N) and the "
             "first columns\n"
             "of b, (limbs, keys, columns); row i has the phase a s_i, s_i being the source of key i.");
}

}  // namespace cipherblas::core
