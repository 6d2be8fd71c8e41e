// Encrypted matrices by coefficients: transposition and key switching of rows.
#include "rlwe/transpose.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <bit>
#include <tuple>

#include "core/arrays.h"
#include "ring/row_transform.h"

namespace cipherblas::core {
namespace {

using namespace nb::literals;
using Pair = std::tuple<Words, Words>;

// Rows by coefficients: (limbs, rows, columns).
class CoefficientRows {
  public:
    CoefficientRows(const Context& context, const AnyArray& array, const char* what,
                    const std::vector<std::int64_t>& shape)
        : argument_(array, what, shape) {
        limbs_ = checked_count(array, what, argument_.shape(0), context.num_q(), "limbs");
        if (argument_.shape(1) < 1) fail(what, "at least one row", shape_text(array));
    }
    int limbs() const { return limbs_; }
    std::size_t rows() const { return argument_.shape(1); }
    std::size_t columns() const { return argument_.shape(2); }
    RowsView view() const { return {argument_.origin(), argument_.stride(0), argument_.stride(1)}; }

  private:
    Argument<std::uint64_t, Layout::kRows> argument_;
    int limbs_;
};

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
    const std::size_t most = std::min(context.n(), std::size_t{1} << kMaxLogRows);
    const TransposePlan plan(log_rows(d, "columns of b", most), transpose_policy(policy));
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
        .def(
            "relinearise_rows", &relinearise, "a"_a, "b"_a, "key"_a,
            "The rows (a_i, b_i) times the secret, with the key of s^2; a, b: (limbs, rows, N) coefficients.")
        .def("switch_rows", &switch_with, "a"_a, "keys"_a, "columns"_a,
             "One polynomial a, (limbs, N) coefficients, switched with each key: (limbs, keys, N) and the "
             "first columns\n"
             "of b, (limbs, keys, columns); row i has the phase a s_i, s_i being the source of key i.");
}

}  // namespace cipherblas::core
