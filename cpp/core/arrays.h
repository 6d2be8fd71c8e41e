// Arguments and results of the binding: NumPy arrays checked against what a function expects.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/complex.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ring/pool.h"
#include "rlwe/context.h"
#include "rlwe/switching_key.h"
#include "rlwe/views.h"

namespace cipherblas::core {

namespace nb = nanobind;

// Any array in main memory; type, shape and layout are checked here so that the message names expected and got.
using AnyArray = nb::ndarray<nb::ro, nb::device::cpu>;
using Words = nb::ndarray<nb::numpy, std::uint64_t>;
using Signed = nb::ndarray<nb::numpy, std::int64_t>;

inline constexpr std::int64_t kAny = -1;  // a dimension of any length

// Throws std::invalid_argument "what: expected X, got Y" (ValueError in Python).
[[noreturn]] void fail(const std::string& what, const std::string& expected, const std::string& got);

std::string shape_text(const AnyArray& array);
std::string dtype_text(nb::dlpack::dtype dtype);

// The type and shape are as wanted; kAny matches everything.
void check_array(const AnyArray& array, const char* what, nb::dlpack::dtype dtype,
                 const std::vector<std::int64_t>& shape);

// Where an array lies, or its copy where the kernels could not use it: its rows (last dimension) must be contiguous
// and 64-byte aligned.
class Rows {
  public:
    Rows(const AnyArray& array, std::size_t item_bytes);
    Rows(Rows&&) = default;

    const void* data() const { return data_; }
    // In items.
    std::ptrdiff_t stride(std::size_t dimension) const { return strides_[dimension]; }
    bool is_contiguous() const { return contiguous_; }

  private:
    const void* data_ = nullptr;
    std::vector<std::ptrdiff_t> strides_;
    bool contiguous_ = false;
    Buffer copy_;
    void copy(const AnyArray& array, std::size_t item_bytes);
};

// A contiguous, aligned argument of item type T.
template <typename T>
class Argument {
  public:
    Argument(const AnyArray& array, const char* what, const std::vector<std::int64_t>& shape)
        : rows_(check(array, what, shape), sizeof(T)), shape_(array.ndim()) {
        for (std::size_t i = 0; i < array.ndim(); ++i) shape_[i] = array.shape(i);
    }
    const T* data() const { return static_cast<const T*>(rows_.data()); }
    std::size_t shape(std::size_t i) const { return shape_[i]; }
    std::ptrdiff_t stride(std::size_t i) const { return rows_.stride(i); }

  private:
    static const AnyArray& check(const AnyArray& array, const char* what,
                                 const std::vector<std::int64_t>& shape) {
        check_array(array, what, nb::dtype<T>(), shape);
        return array;
    }
    Rows rows_;
    std::vector<std::size_t> shape_;
};

// A ciphertext argument: 2 or 3 components, 1 to num_q limbs; views with other strides are used in place.
class Ciphertext {
  public:
    Ciphertext(const Context& context, const AnyArray& array, const char* what);
    const CiphertextView& view() const { return view_; }

  private:
    Argument<std::uint64_t> argument_;
    CiphertextView view_;
};

// A polynomial argument with so many rows (kAny: any number).
class Polynomial {
  public:
    Polynomial(const Context& context, const AnyArray& array, const char* what, std::int64_t rows)
        : argument_(array, what, {rows, static_cast<std::int64_t>(context.n())}) {}
    PolynomialView view() const { return {argument_.data(), argument_.stride(0)}; }
    int rows() const { return static_cast<int>(argument_.shape(0)); }

  private:
    Argument<std::uint64_t> argument_;
};

// N signed coefficients.
class Coefficients {
  public:
    Coefficients(const Context& context, const AnyArray& array, const char* what)
        : argument_(array, what, {static_cast<std::int64_t>(context.n())}) {}
    const std::int64_t* data() const { return argument_.data(); }

  private:
    Argument<std::int64_t> argument_;
};

// A switching key argument (digits, 2, limbs + k, key words).
class SwitchingKey {
  public:
    SwitchingKey(const Context& context, const AnyArray& array, const char* what);
    const SwitchingKeyView& view() const { return view_; }

  private:
    Argument<std::uint64_t> argument_;
    SwitchingKeyView view_;
};

// A result: a block of the pool that its array will own.
template <typename T>
class Result {
  public:
    explicit Result(std::vector<std::size_t> shape) : shape_(std::move(shape)) {
        std::size_t items = 1;
        for (const std::size_t length : shape_) items *= length;
        buffer_ = Buffer(items * sizeof(T));
    }
    T* data() const { return static_cast<T*>(buffer_.data()); }
    // Hands the block over; the interpreter lock must be held.
    nb::ndarray<nb::numpy, T> array() {
        void* const data = buffer_.data();
        nb::capsule owner(new Buffer(std::move(buffer_)),
                          [](void* buffer) noexcept { delete static_cast<Buffer*>(buffer); });
        return nb::ndarray<nb::numpy, T>(data, shape_.size(), shape_.data(), owner);
    }

  private:
    std::vector<std::size_t> shape_;
    Buffer buffer_;
};

// A ciphertext result.
class CiphertextResult {
  public:
    CiphertextResult(const Context& context, int components, int limbs)
        : result_({static_cast<std::size_t>(components), static_cast<std::size_t>(limbs), context.n()}),
          span_{result_.data(), components, limbs, context.n()} {}
    const CiphertextSpan& span() const { return span_; }
    Words array() { return result_.array(); }

  private:
    Result<std::uint64_t> result_;
    CiphertextSpan span_;
};

void bind_client(nb::class_<Context>& context);
void bind_server(nb::class_<Context>& context);
void bind_gemm(nb::module_& m);
void bind_transpose(nb::class_<Context>& context);
void bind_transpose_plan(nb::module_& m);
void bind_coefficient_rows(nb::class_<Context>& context);

}  // namespace cipherblas::core
