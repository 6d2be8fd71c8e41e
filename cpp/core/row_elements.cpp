// Rows of encrypted matrices as ciphertexts, and ciphertexts as rows.
#include "rlwe/row_elements.h"

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <bit>
#include <tuple>

#include "core/arrays.h"

namespace cipherblas::core {
namespace {

using namespace nb::literals;

void check_columns(const Context& context, const char* what, std::size_t columns) {
    if (!std::has_single_bit(columns) || columns > context.n()) {
        fail(what, "a power of two up to " + std::to_string(context.n()), std::to_string(columns));
    }
}

Words elements_of_rows_array(const Context& context, const AnyArray& a, const AnyArray& b) {
    const CoefficientRows a_rows(context, a, "a", {kAny, kAny, length(context.n())});
    const CoefficientRows b_rows(context, b, "b", {a_rows.limbs(), length(a_rows.rows()), kAny});
    check_columns(context, "columns of b", b_rows.columns());
    Result<std::uint64_t> out({a_rows.rows(), 2, static_cast<std::size_t>(a_rows.limbs()), context.n()});
    {
        const nb::gil_scoped_release release;
        elements_of_rows(context, a_rows.limbs(), a_rows.rows(), b_rows.columns(), a_rows.view(),
                         b_rows.view(), out.data());
    }
    return out.array();
}

std::tuple<Words, Words> rows_of_elements_arrays(const Context& context, const std::vector<AnyArray>& cts,
                                                 std::size_t rows, std::size_t columns, std::size_t held) {
    if (cts.empty()) fail("cts", "at least one ciphertext", "none");
    std::vector<Ciphertext> arguments;
    std::vector<CiphertextView> elements;
    for (const AnyArray& ct : cts) {
        arguments.emplace_back(context, ct, "cts", 2);
        elements.push_back(arguments.back().view());
        if (elements.back().limbs != elements.front().limbs) {
            fail("cts", std::to_string(elements.front().limbs) + " limbs",
                 std::to_string(elements.back().limbs));
        }
    }
    check_columns(context, "columns", columns);
    if (held < 1 || held > context.n() / columns) {
        fail("held", "1 to " + std::to_string(context.n() / columns), std::to_string(held));
    }
    if (rows < 1 || (rows - 1) / held + 1 != cts.size()) {
        fail("rows", "as many as " + std::to_string(cts.size()) + " ciphertexts hold", std::to_string(rows));
    }
    const std::size_t limbs = static_cast<std::size_t>(elements.front().limbs);
    Result<std::uint64_t> a({limbs, rows, context.n()}), b({limbs, rows, columns});
    {
        const nb::gil_scoped_release release;
        rows_of_elements(context, elements, {rows, columns, held}, a.data(), b.data());
    }
    return {a.array(), b.array()};
}

}  // namespace

void bind_row_elements(nb::class_<Context>& context) {
    context
        .def("elements_of_rows", &elements_of_rows_array, "a"_a, "b"_a,
             "Ciphertexts (rows, 2, limbs, N) in NTT form of rows (limbs, rows, N) and (limbs, rows, "
             "columns)\n"
             "by coefficients: entry j of b is the coefficient of X^(j N / columns).")
        .def("rows_of_elements", &rows_of_elements_arrays, "cts"_a, "rows"_a, "columns"_a, "held"_a,
             "(limbs, rows, N) and (limbs, rows, columns) of ciphertexts of two components, `held` rows of "
             "each:\n"
             "entry j of b of row t is the coefficient of X^(j N / columns + t'), t' the bit-reversed t, and "
             "a "
             "is X^-t'\n"
             "times that of the ciphertext.");
}

}  // namespace cipherblas::core
