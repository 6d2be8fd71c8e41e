// Matrix products modulo q, on NumPy arrays with any strides.
#include "gemm/gemm.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>

#include "core/arrays.h"
#include "gemm/blas.h"
#include "gemm/blocked.h"
#include "gemm/float_gemm.h"
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
    {"strassen", Path::kStrassen}, {"strassen2", Path::kStrassen2}, {"bytes", Path::kBytes},
    {"blas", Path::kExact},
};
constexpr NamedPath kSmallPaths[] = {
    {"auto", Path::kAuto},       {"scalar", Path::kScalar}, {"ifma", Path::kIfma},
    {"narrow", Path::kNarrow},   {"bytes", Path::kBytes},   {"exact", Path::kExact},
    {"rounded", Path::kRounded},
};

// Loads the BLAS at the first need; without one, the paths that want it are not available.
void load_blas() {
    if (!gemm::have_blas()) nb::module_::import_("cipherblas.common.openblas").attr("load")();
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

// A matrix argument that is multiplied where it lies, whatever its strides.
template <typename T>
class Matrix {
  public:
    Matrix(const AnyArray& array, const char* what, std::int64_t rows, Item item)
        : argument_(array, what, {rows, kAny}),
          view_{argument_.origin(), item, argument_.shape(0), argument_.shape(1), argument_.stride(0),
                argument_.stride(1)} {}
    const MatrixView& view() const { return view_; }

  private:
    Argument<T, Layout::kStrided> argument_;
    MatrixView view_;
};

void check_reduced(const MatrixView& view, const char* what, std::uint64_t modulus) {
    if (gemm::all_below(view, modulus)) return;
    fail(what, "residues below " + std::to_string(modulus), std::to_string(gemm::largest_magnitude(view)));
}

// A matrix of residues.
class Residues : public Matrix<std::uint64_t> {
  public:
    Residues(const AnyArray& array, const char* what, std::int64_t rows, std::uint64_t modulus)
        : Matrix(array, what, rows, Item::kResidue) {
        const nb::gil_scoped_release release;
        check_reduced(view(), what, modulus);
    }
};

// Calls body with a matrix of signed integers.
template <typename Body>
nb::object with_integers(const AnyArray& u, const Body& body) {
    const auto is = [&](nb::dlpack::dtype dtype) { return u.dtype() == dtype; };
    if (is(nb::dtype<std::int8_t>())) return body(Matrix<std::int8_t>(u, "u", kAny, Item::kInt8).view());
    if (is(nb::dtype<std::int16_t>())) return body(Matrix<std::int16_t>(u, "u", kAny, Item::kInt16).view());
    if (is(nb::dtype<std::int32_t>())) return body(Matrix<std::int32_t>(u, "u", kAny, Item::kInt32).view());
    if (is(nb::dtype<std::int64_t>())) return body(Matrix<std::int64_t>(u, "u", kAny, Item::kInt64).view());
    if (is(nb::dtype<double>())) return body(Matrix<double>(u, "u", kAny, Item::kDouble).view());
    fail("u", "dtype int8, int16, int32, int64 or float64", dtype_text(u.dtype()));
}

void copy(const MatrixSpan& from, const MatrixSpan& to) {
    for (std::size_t i = 0; i < to.rows; ++i) std::copy_n(from.row(i), to.cols, to.row(i));
}

MatrixSpan packed(std::uint64_t* data, std::size_t rows, std::size_t cols) {
    return {data, rows, cols, static_cast<std::ptrdiff_t>(cols)};
}

// An array that was given for the result: rows of contiguous items.
template <typename T>
class Output {
  public:
    Output(const nb::object& out, std::size_t rows, std::size_t cols)
        : data_(static_cast<T*>(writable(out, "out"))), array_(nb::cast<AnyArray>(out)) {
        const Argument<T, Layout::kStrided> checked(array_, "out", {length(rows), length(cols)});
        if (checked.origin() != data_) fail("out", "items at multiples of their size", "another address");
        if ((cols > 1 && checked.stride(1) != 1) ||
            (rows > 1 && checked.stride(0) < static_cast<std::ptrdiff_t>(cols))) {
            fail("out", "contiguous rows that do not overlap", strides_text(array_));
        }
        row_stride_ = checked.stride(0);
    }
    T* data() const { return data_; }
    std::ptrdiff_t row_stride() const { return row_stride_; }
    bool may_overlap(const AnyArray& operand) const { return core::may_overlap(array_, operand); }

  private:
    T* data_;
    AnyArray array_;
    std::ptrdiff_t row_stride_ = 0;
};

// Runs product(c, accumulate) into `out`, or into a new array where that is None.
template <typename Multiply>
nb::object into(const nb::object& out, bool accumulate, const AnyArray& a, const AnyArray& b,
                const Multiply& multiply) {
    const std::size_t rows = a.shape(0), cols = b.shape(1);
    if (out.is_none()) {
        if (accumulate) fail("out", "an array to accumulate into", "None");
        Result<std::uint64_t> result({rows, cols});
        {
            const nb::gil_scoped_release release;
            multiply(packed(result.data(), rows, cols), false);
        }
        return nb::cast(result.array());
    }
    const Output<std::uint64_t> output(out, rows, cols);
    const MatrixSpan c = {output.data(), rows, cols, output.row_stride()};
    const bool apart = !output.may_overlap(a) && !output.may_overlap(b);
    {
        const nb::gil_scoped_release release;
        if (apart) {
            multiply(c, accumulate);
        } else {
            const Buffer words = Buffer::of_words(c.rows, c.cols);
            const MatrixSpan result = packed(words.words(), c.rows, c.cols);
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
    Modulus{modulus};  // throws unless it can be one
    const Path chosen = path_named(path, kModularPaths);
    const Residues left(a, "a", kAny, modulus);
    const Residues right(b, "b", length(left.view().cols), modulus);
    return into(out, accumulate, a, b, [&](const MatrixSpan& c, bool add) {
        if (add) check_accumulator(c, modulus);
        gemm::modular_gemm(left.view(), right.view(), c, modulus, chosen, add);
    });
}

nb::object small_gemm(const AnyArray& u, const AnyArray& b, std::uint64_t modulus, const std::string& path,
                      const nb::object& out, bool accumulate) {
    const Modulus checked(modulus);
    const Path chosen = path_named(path, kSmallPaths);
    return with_integers(u, [&](const MatrixView& left) {
        const Residues right(b, "b", length(left.cols), modulus);
        return into(out, accumulate, u, b, [&](const MatrixSpan& c, bool add) {
            if (add) check_accumulator(c, modulus);
            gemm::small_gemm(left, right.view(), c, modulus, gemm::largest_magnitude(left), chosen, add);
        });
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
class Doubles {
  public:
    Doubles(const AnyArray& array, const char* what, std::int64_t rows)
        : argument_(array, what, {rows, kAny}) {
        const auto holds = [&](std::size_t line, std::size_t entry) {
            return (argument_.shape(entry) <= 1 || argument_.stride(entry) == 1) &&
                   (argument_.shape(line) <= 1 || argument_.stride(line) >= length(argument_.shape(entry)));
        };
        if (holds(0, 1)) {
            view_ = {argument_.origin(), argument_.stride(0), false};
        } else if (holds(1, 0)) {
            view_ = {argument_.origin(), argument_.stride(1), true};
        } else {
            fail(what, "contiguous rows or columns", strides_text(array));
        }
    }
    const gemm::DoubleView& view() const { return view_; }

  private:
    Argument<double, Layout::kStrided> argument_;
    gemm::DoubleView view_;
};

nb::object double_gemm(const AnyArray& a, const AnyArray& b, const nb::object& out) {
    load_blas();
    if (!gemm::have_blas()) fail("double_gemm", "the BLAS of scipy-openblas64", "none");
    const Doubles left(a, "a", kAny);
    const std::size_t rows = a.shape(0), depth = a.shape(1);
    const Doubles right(b, "b", length(depth));
    const std::size_t cols = b.shape(1);
    const auto multiply = [&](double* c, std::ptrdiff_t row_stride) {
        const nb::gil_scoped_release release;
        gemm::double_gemm(left.view(), right.view(), c, row_stride, rows, depth, cols);
    };
    if (!out.is_none()) {
        const Output<double> output(out, rows, cols);
        if (output.may_overlap(a) || output.may_overlap(b)) fail("out", "memory of its own", "an operand's");
        multiply(output.data(), output.row_stride());
        return out;
    }
    Result<double> result({rows, cols});
    multiply(result.data(), length(cols));
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
    m.attr("CONVERTED_ROWS") = gemm::kConvertedRows;
    m.attr("CONVERTED_DEPTH") = gemm::kConvertedDepth;
    m.attr("CONVERTED_COLS") = gemm::kConvertedCols;
    m.attr("MOST_DIGITS") = gemm::kMaxParts;
    m.attr("PACKED_ROWS") = gemm::kPackedRows;
    m.attr("PACKED_DEPTH") = gemm::kPackedDepth;
    m.attr("PACKED_COLS") = gemm::kPackedCols;
    m.def("modular_gemm", &modular_gemm, "a"_a, "b"_a, "modulus"_a, "path"_a = "auto", "out"_a = nb::none(),
          "accumulate"_a = false,
          "a b mod `modulus` (m, n), exactly; residues (m, k) and (k, n), any strides. `out` has contiguous "
          "rows.\n"
          "The modulus is odd and below 2^50.");
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
