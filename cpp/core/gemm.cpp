// Matrix products modulo q, on NumPy arrays with any strides.
#include "gemm/gemm.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <limits>

#include "core/arrays.h"
#include "gemm/blas.h"
#include "gemm/rounding.h"

namespace cipherblas::core {
namespace {

using namespace nb::literals;
using gemm::Item;
using gemm::MatrixSpan;
using gemm::MatrixView;
using gemm::Path;
using Writable = nb::ndarray<nb::device::cpu>;

struct NamedPath {
    const char* name;
    Path path;
};
constexpr NamedPath kModularPaths[] = {
    {"auto", Path::kAuto},         {"scalar", Path::kScalar},       {"ifma", Path::kIfma},
    {"strassen", Path::kStrassen}, {"strassen2", Path::kStrassen2}, {"blas", Path::kExact},
};
constexpr NamedPath kSmallPaths[] = {
    {"auto", Path::kAuto},   {"scalar", Path::kScalar},   {"ifma", Path::kIfma},
    {"exact", Path::kExact}, {"rounded", Path::kRounded},
};

// Loads the BLAS at the first need; without one, the paths that want it are not available.
void load_blas() {
    if (!gemm::have_blas()) nb::module_::import_("cipherblas.blas").attr("load")();
}

template <std::size_t COUNT>
Path path_named(const std::string& name, const NamedPath (&paths)[COUNT]) {
    load_blas();
    std::string usable;
    for (const NamedPath& known : paths) {
        if (!gemm::path_available(known.path)) continue;
        if (name == known.name) return known.path;
        usable += (usable.empty() ? "" : ", ") + std::string(known.name);
    }
    fail("path", "one of " + usable + " (available here)", name);
}

std::string strides_text(const AnyArray& array) {
    return "strides (" + std::to_string(array.stride(0)) + ", " + std::to_string(array.stride(1)) + ") items";
}

MatrixView view_of(const AnyArray& array, Item item) {
    return {array.data(),
            item,
            array.shape(0),
            array.shape(1),
            static_cast<std::ptrdiff_t>(array.stride(0)),
            static_cast<std::ptrdiff_t>(array.stride(1))};
}

void check_reduced(const MatrixView& view, const char* what, std::uint64_t modulus) {
    if (gemm::all_below(view, modulus)) return;
    fail(what, "residues below " + std::to_string(modulus), std::to_string(gemm::largest_magnitude(view)));
}

// A matrix of residues.
MatrixView residues(const AnyArray& array, const char* what, std::int64_t rows, std::uint64_t modulus) {
    check_array(array, what, nb::dtype<std::uint64_t>(), {rows, kAny});
    const MatrixView view = view_of(array, Item::kResidue);
    const nb::gil_scoped_release release;
    check_reduced(view, what, modulus);
    return view;
}

// A matrix of signed integers.
MatrixView integers(const AnyArray& array, const char* what) {
    const std::pair<nb::dlpack::dtype, Item> known[] = {
        {nb::dtype<std::int8_t>(), Item::kInt8},   {nb::dtype<std::int16_t>(), Item::kInt16},
        {nb::dtype<std::int32_t>(), Item::kInt32}, {nb::dtype<std::int64_t>(), Item::kInt64},
        {nb::dtype<double>(), Item::kDouble},
    };
    for (const auto& [dtype, item] : known) {
        if (array.dtype() != dtype) continue;
        check_array(array, what, dtype, {kAny, kAny});
        return view_of(array, item);
    }
    fail(what, "dtype int8, int16, int32, int64 or float64", dtype_text(array.dtype()));
}

// The bytes between the first and the last entry.
std::pair<const char*, const char*> extent(const void* data, std::size_t rows, std::size_t cols,
                                           std::ptrdiff_t row_stride, std::ptrdiff_t col_stride,
                                           std::size_t bytes) {
    std::ptrdiff_t low = 0;
    std::ptrdiff_t high = 0;
    for (const std::ptrdiff_t reach : {(static_cast<std::ptrdiff_t>(rows) - 1) * row_stride,
                                       (static_cast<std::ptrdiff_t>(cols) - 1) * col_stride}) {
        (reach < 0 ? low : high) += reach;
    }
    const auto size = static_cast<std::ptrdiff_t>(bytes);
    const char* const start = static_cast<const char*>(data);
    return {start + low * size, start + (high + 1) * size};
}

bool may_overlap(const MatrixSpan& c, const MatrixView& x) {
    if (c.rows == 0 || c.cols == 0 || x.rows == 0 || x.cols == 0) return false;
    const auto [c_from, c_to] = extent(c.data, c.rows, c.cols, c.row_stride, 1, sizeof(std::uint64_t));
    const auto [x_from, x_to] =
        extent(x.data, x.rows, x.cols, x.row_stride, x.col_stride, gemm::item_bytes(x.item));
    return c_from < x_to && x_from < c_to;
}

void copy(const MatrixSpan& from, const MatrixSpan& to) {
    for (std::size_t i = 0; i < to.rows; ++i) std::copy_n(from.row(i), to.cols, to.row(i));
}

MatrixSpan packed(std::uint64_t* data, std::size_t rows, std::size_t cols) {
    return {data, rows, cols, static_cast<std::ptrdiff_t>(cols)};
}

// The data and the row stride of an array that was given for the result.
template <typename T>
std::pair<T*, std::ptrdiff_t> output(const nb::object& out, std::size_t rows, std::size_t cols) {
    Writable array;
    if (!nb::try_cast(out, array, false)) fail("out", "a writable array", nb::str(out.type()).c_str());
    const AnyArray checked(array.handle());
    check_array(checked, "out", nb::dtype<T>(),
                {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols)});
    const auto row_stride = static_cast<std::ptrdiff_t>(checked.stride(0));
    if ((cols > 1 && checked.stride(1) != 1) ||
        (rows > 1 && row_stride < static_cast<std::ptrdiff_t>(cols))) {
        fail("out", "contiguous rows that do not overlap", strides_text(checked));
    }
    return {static_cast<T*>(array.data()), row_stride};
}

// Runs product(c, accumulate) into `out`, or into a new array where that is None.
template <typename Multiply>
nb::object into(const nb::object& out, bool accumulate, const MatrixView& a, const MatrixView& b,
                const Multiply& multiply) {
    if (out.is_none()) {
        if (accumulate) fail("out", "an array to accumulate into", "None");
        Result<std::uint64_t> result({a.rows, b.cols});
        {
            const nb::gil_scoped_release release;
            multiply(packed(result.data(), a.rows, b.cols), false);
        }
        return nb::cast(result.array());
    }
    const auto [data, row_stride] = output<std::uint64_t>(out, a.rows, b.cols);
    const MatrixSpan c = {data, a.rows, b.cols, row_stride};
    {
        const nb::gil_scoped_release release;
        if (!may_overlap(c, a) && !may_overlap(c, b)) {
            multiply(c, accumulate);
        } else {
            const Buffer apart = Buffer::of_words(c.rows * c.cols);
            const MatrixSpan result = packed(apart.words(), c.rows, c.cols);
            copy(c, result);
            multiply(result, accumulate);
            copy(result, c);
        }
    }
    return out;
}

void check_accumulator(const MatrixSpan& c, std::uint64_t modulus) {
    check_reduced({c.data, Item::kResidue, c.rows, c.cols, c.row_stride, 1}, "out", modulus);
}

nb::object modular_gemm(const AnyArray& a, const AnyArray& b, std::uint64_t modulus, const std::string& path,
                        const nb::object& out, bool accumulate) {
    const Modulus checked(modulus);
    const Path chosen = path_named(path, kModularPaths);
    const MatrixView left = residues(a, "a", kAny, modulus);
    const MatrixView right = residues(b, "b", static_cast<std::int64_t>(left.cols), modulus);
    return into(out, accumulate, left, right, [&](const MatrixSpan& c, bool add) {
        if (add) check_accumulator(c, modulus);
        gemm::modular_gemm(left, right, c, modulus, chosen, add);
    });
}

nb::object small_gemm(const AnyArray& u, const AnyArray& b, std::uint64_t modulus, const std::string& path,
                      const nb::object& out, bool accumulate) {
    const Modulus checked(modulus);
    const Path chosen = path_named(path, kSmallPaths);
    const MatrixView left = integers(u, "u");
    const MatrixView right = residues(b, "b", static_cast<std::int64_t>(left.cols), modulus);
    return into(out, accumulate, left, right, [&](const MatrixSpan& c, bool add) {
        if (add) check_accumulator(c, modulus);
        gemm::small_gemm(left, right, c, modulus, gemm::largest_magnitude(left), chosen, add);
    });
}

std::vector<std::string> gemm_paths() {
    load_blas();
    std::vector<std::string> names;
    for (const NamedPath& known : kModularPaths) {
        if (known.path != Path::kAuto && gemm::path_available(known.path)) names.emplace_back(known.name);
    }
    return names;
}

// A float64 operand that the BLAS takes as it lies: rows or columns contiguous.
gemm::DoubleView doubles(const AnyArray& array, const char* what, std::int64_t rows) {
    check_array(array, what, nb::dtype<double>(), {rows, kAny});
    const auto* const data = static_cast<const double*>(array.data());
    const auto holds = [&](std::size_t line, std::size_t entry) {
        return (array.shape(entry) <= 1 || array.stride(entry) == 1) &&
               (array.shape(line) <= 1 ||
                array.stride(line) >= static_cast<std::int64_t>(array.shape(entry)));
    };
    if (holds(0, 1)) return {data, static_cast<std::ptrdiff_t>(array.stride(0)), false};
    if (holds(1, 0)) return {data, static_cast<std::ptrdiff_t>(array.stride(1)), true};
    fail(what, "contiguous rows or columns", strides_text(array));
}

nb::object double_gemm(const AnyArray& a, const AnyArray& b, const nb::object& out) {
    load_blas();
    if (!gemm::have_blas()) fail("double_gemm", "the BLAS of scipy-openblas64", "none");
    const gemm::DoubleView left = doubles(a, "a", kAny);
    const gemm::DoubleView right = doubles(b, "b", static_cast<std::int64_t>(a.shape(1)));
    const std::size_t rows = a.shape(0);
    const std::size_t cols = b.shape(1);
    const auto multiply = [&](double* c, std::ptrdiff_t row_stride) {
        const nb::gil_scoped_release release;
        gemm::double_gemm(left, right, c, row_stride, rows, a.shape(1), cols);
    };
    if (!out.is_none()) {
        const auto [data, row_stride] = output<double>(out, rows, cols);
        multiply(data, row_stride);
        return out;
    }
    Result<double> result({rows, cols});
    multiply(result.data(), static_cast<std::ptrdiff_t>(cols));
    return nb::cast(result.array());
}

void check_error_arguments(std::int64_t k, std::uint64_t max_u) {
    if (k < 1) fail("k", "at least 1", std::to_string(k));
    if (max_u > gemm::kRoundedLargest) {
        fail("max_u", "at most " + std::to_string(gemm::kRoundedLargest), std::to_string(max_u));
    }
}

double small_gemm_error(std::int64_t k, std::uint64_t max_u, std::uint64_t modulus) {
    check_error_arguments(k, max_u);
    return gemm::rounded_error(static_cast<std::size_t>(k), max_u, Modulus(modulus).q);
}

double small_gemm_rms(std::int64_t k, double max_u, double modulus) {
    check_error_arguments(k, 0);
    if (!(max_u >= 0)) fail("max_u", "at least 0", std::to_string(max_u));
    if (max_u > static_cast<double>(gemm::kRoundedLargest)) return std::numeric_limits<double>::infinity();
    if (!(modulus > 2 && modulus <= 0x1p50)) {
        fail("modulus", "above 2, at most 2^50", std::to_string(modulus));
    }
    return gemm::rounded_rms(static_cast<std::size_t>(k), static_cast<std::uint64_t>(max_u),
                             static_cast<std::uint64_t>(modulus));
}

void register_blas(std::uintptr_t dgemm, std::uintptr_t set_threads) {
    gemm::register_blas(reinterpret_cast<gemm::CblasDgemm>(dgemm),
                        reinterpret_cast<gemm::SetBlasThreads>(set_threads));
}

}  // namespace

void bind_gemm(nb::module_& m) {
    m.def("modular_gemm", &modular_gemm, "a"_a, "b"_a, "modulus"_a, "path"_a = "auto", "out"_a = nb::none(),
          "accumulate"_a = false,
          "a b mod `modulus` (m, n), exactly; residues (m, k) and (k, n), any strides. `out` has contiguous "
          "rows.");
    m.def("small_gemm", &small_gemm, "u"_a, "b"_a, "modulus"_a, "path"_a = "auto", "out"_a = nb::none(),
          "accumulate"_a = false,
          "u b mod `modulus` (m, n) for signed integers u (m, k) and residues b (k, n). Exact on every path "
          "but\n"
          "`rounded`, which is within small_gemm_error of it.");
    m.def("small_gemm_error", &small_gemm_error, "k"_a, "max_u"_a, "modulus"_a,
          "Largest error of an entry of small_gemm on the rounded path.");
    m.def("small_gemm_rms", &small_gemm_rms, "k"_a, "max_u"_a, "modulus"_a,
          "Its root mean square for uniform b and |u| = max_u, infinite where the path takes no such "
          "integers.\n"
          "Of the modulus the size is enough.");
    m.def("gemm_paths", &gemm_paths, "The paths of modular_gemm that this machine has.");
    m.def("double_gemm", &double_gemm, "a"_a, "b"_a, "out"_a = nb::none(),
          "The float64 product a b by the BLAS of the other paths: what they are measured by. `out` overlaps "
          "neither.");
    m.def("register_blas", &register_blas, "dgemm"_a, "set_threads"_a,
          "Addresses of cblas_dgemm (ILP64) and of what sets the threads of that BLAS.");
}

}  // namespace cipherblas::core
