// Arguments and results of the binding. Every array that a function takes goes through `Argument`, which checks its type,
// shape and layout once; every array that it gives back is a `Result`, whose size is checked once.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/complex.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ring/aligned.h"
#include "ring/pool.h"
#include "rlwe/context.h"
#include "rlwe/factor.h"
#include "rlwe/switching_key.h"
#include "rlwe/views.h"

namespace cipherblas::core {

namespace nb = nanobind;

// Any array in main memory; type, shape and layout are checked here so that the message names expected and got.
using AnyArray = nb::ndarray<nb::ro, nb::device::cpu>;
using Words = nb::ndarray<nb::numpy, std::uint64_t>;
using Signed = nb::ndarray<nb::numpy, std::int64_t>;

inline constexpr std::int64_t kAny = -1;  // a dimension of any length

inline std::int64_t length(std::size_t n) { return static_cast<std::int64_t>(n); }

// Throws std::invalid_argument "what: expected X, got Y" (ValueError in Python).
[[noreturn]] void fail(const std::string& what, const std::string& expected, const std::string& got);

std::string shape_text(const AnyArray& array);
std::string dtype_text(nb::dlpack::dtype dtype);

// The type and shape are as wanted; kAny matches everything.
void check_array(const AnyArray& array, const char* what, nb::dlpack::dtype dtype,
                 const std::vector<std::int64_t>& shape);

// `count` as an int, from 1 to `most`. The message names the array.
int checked_count(const AnyArray& array, const char* what, std::size_t count, int most, const char* unit);

// Whether the bytes between the first and the last entry of the two have any in common.
bool may_overlap(const AnyArray& x, const AnyArray& y);

// The bytes of an array that a caller gave to be written to; fails where it cannot be.
void* writable(const nb::object& array, const char* what);

// What a function relies on. Items are always aligned to their own size.
enum class Layout {
    kStrided,  // nothing more: strides of either sign, or 0
    kRows,     // rows (the last dimension) contiguous and 64-byte aligned; they lie any strides apart
    kPacked,   // C-contiguous and 64-byte aligned
    kFlat,     // C-contiguous
};

// Where an array lies that lives longer than this, or its copy. What kStrided and kRows rely on is made by a copy. C-contiguous arrays are large: other
// strides are refused, and only what is merely not aligned is copied.
class Memory {
  public:
    Memory(const AnyArray& array, const char* what, std::size_t item_bytes, Layout layout);
    Memory(Memory&&) = default;

    const void* data() const { return data_; }
    std::size_t shape(std::size_t dimension) const { return shape_[dimension]; }
    // In items.
    std::ptrdiff_t stride(std::size_t dimension) const { return strides_[dimension]; }

  private:
    const void* data_ = nullptr;
    std::vector<std::size_t> shape_;
    std::vector<std::ptrdiff_t> strides_;
    Buffer copy_;
    bool is_contiguous() const;
    bool is_aligned(std::size_t bytes) const;
    bool has_aligned_rows(std::size_t item_bytes) const;
    void copy(std::size_t item_bytes);
};

// An array of item type T.
template <typename T, Layout LAYOUT>
class Argument {
  public:
    Argument(const AnyArray& array, const char* what, const std::vector<std::int64_t>& shape)
        : memory_(checked(array, what, shape), what, sizeof(T), LAYOUT) {}

    // All items in C order. Whoever takes strided arrays has to ask for their strides.
    const T* data() const
        requires(LAYOUT == Layout::kPacked || LAYOUT == Layout::kFlat)
    {
        return origin();
    }
    // The first item.
    const T* origin() const { return static_cast<const T*>(memory_.data()); }
    std::size_t shape(std::size_t i) const { return memory_.shape(i); }
    std::ptrdiff_t stride(std::size_t i) const { return memory_.stride(i); }
    // Row i of a matrix.
    const T* row(std::size_t i) const { return origin() + static_cast<std::ptrdiff_t>(i) * stride(0); }

  private:
    static const AnyArray& checked(const AnyArray& array, const char* what,
                                   const std::vector<std::int64_t>& shape) {
        check_array(array, what, nb::dtype<T>(), shape);
        return array;
    }
    Memory memory_;
};

// A C-contiguous argument without empty dimensions, used where it lies: rows of a matrix have any length.
template <typename T>
class Flat : public Argument<T, Layout::kFlat> {
  public:
    Flat(const AnyArray& array, const char* what, const std::vector<std::int64_t>& shape)
        : Argument<T, Layout::kFlat>(array, what, shape) {
        if (array.size() == 0) fail(what, "no empty dimension", shape_text(array));
    }
};

// A vector of so many items (kAny: any number).
template <typename T>
class Vector {
  public:
    Vector(const AnyArray& array, const char* what, std::int64_t length) : argument_(array, what, {length}) {}
    const T* data() const { return argument_.origin(); }  // the last dimension is contiguous
    std::size_t size() const { return argument_.shape(0); }

  private:
    Argument<T, Layout::kRows> argument_;
};

// N signed coefficients.
class Coefficients : public Vector<std::int64_t> {
  public:
    Coefficients(const Context& context, const AnyArray& array, const char* what)
        : Vector(array, what, length(context.n())) {}
};

inline constexpr int kMostComponents = 1024;  // of messages that share an a part

// A ciphertext argument: 2 or 3 components, or up to `most`, 1 to num_q limbs; views with other strides are used in place.
class Ciphertext {
  public:
    Ciphertext(const Context& context, const AnyArray& array, const char* what, int most = 3);
    const CiphertextView& view() const { return view_; }

  private:
    Argument<std::uint64_t, Layout::kRows> argument_;
    CiphertextView view_;
};

// Rows of N words, any number of them.
class PolynomialRows {
  public:
    PolynomialRows(const Context& context, const AnyArray& array, const char* what)
        : argument_(array, what, {kAny, length(context.n())}) {}
    const std::uint64_t* row(std::size_t i) const { return argument_.row(i); }
    std::size_t rows() const { return argument_.shape(0); }

  private:
    Argument<std::uint64_t, Layout::kRows> argument_;
};

// A polynomial in RNS form with so many limbs.
class Polynomial {
  public:
    Polynomial(const Context& context, const AnyArray& array, const char* what, int limbs)
        : argument_(array, what, {limbs, length(context.n())}) {}
    PolynomialView view() const { return {argument_.origin(), argument_.stride(0)}; }

  private:
    Argument<std::uint64_t, Layout::kRows> argument_;
};

// A polynomial with 1 to num_q limbs.
class LimbsOfQ {
  public:
    LimbsOfQ(const Context& context, const AnyArray& array, const char* what);
    PolynomialView view() const { return {argument_.origin(), argument_.stride(0)}; }
    int limbs() const { return limbs_; }

  private:
    Argument<std::uint64_t, Layout::kRows> argument_;
    int limbs_;
};

// The q limbs of factors of so many halves, with the special ones or without.
int factor_limbs(const Context& context, const AnyArray& array, const char* what, bool special);

// A factor (halves, N), see rlwe/factor.h, of any number of q limbs; or of the special ones too, (halves, N / r).
class Factor {
  public:
    Factor(const Context& context, const AnyArray& array, const char* what, bool special);
    FactorView view() const { return {argument_.data(), limbs_, repeats_}; }

  private:
    Argument<std::uint32_t, Layout::kPacked> argument_;
    int limbs_;
    std::size_t repeats_;
};

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

// The q limbs of a component of a key, of so many words, that an array has; see Context::key_words.
int limbs_of_key_words(const Context& context, const AnyArray& array, const char* what, std::size_t words);

// A switching key argument (digits, 2, key words).
class SwitchingKey {
  public:
    SwitchingKey(const Context& context, const AnyArray& array, const char* what);
    const SwitchingKeyView& view() const { return view_; }

  private:
    SwitchingKeyView view_;  // checked before the layout is
    Argument<std::uint64_t, Layout::kPacked> argument_;
};

// Positions in the basis: `limbs` of q, checked, then the special ones if asked for.
std::vector<int> limb_positions(const Context& context, int limbs, bool special);

// A Python integer of any size modulo the first `limbs` primes.
std::vector<std::uint64_t> residues_of(const Context& context, const nb::object& integer, int limbs);

// A result: a block of the pool that its array will own.
template <typename T>
class Result {
  public:
    explicit Result(std::vector<std::size_t> shape)
        : shape_(std::move(shape)), buffer_(bytes_of(shape_.data(), shape_.size(), sizeof(T))) {}
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
void bind_operands(nb::module_& m);
void bind_row_elements(nb::class_<Context>& context);

}  // namespace cipherblas::core
