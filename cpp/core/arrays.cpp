#include "core/arrays.h"

#include <cstring>
#include <stdexcept>

#include "ring/aligned.h"

namespace cipherblas::core {

std::string dtype_text(nb::dlpack::dtype dtype) {
    using Code = nb::dlpack::dtype_code;
    std::string name;
    switch (static_cast<Code>(dtype.code)) {
        case Code::Int:
            name = "int";
            break;
        case Code::UInt:
            name = "uint";
            break;
        case Code::Float:
            name = "float";
            break;
        case Code::Complex:
            name = "complex";
            break;
        case Code::Bool:
            return "bool";
        default:
            name = "type code " + std::to_string(dtype.code) + ", bits ";
            break;
    }
    return name + std::to_string(dtype.bits);
}

void fail(const std::string& what, const std::string& expected, const std::string& got) {
    throw std::invalid_argument(what + ": expected " + expected + ", got " + got);
}

std::string shape_text(const AnyArray& array) {
    std::string text = "(";
    for (std::size_t i = 0; i < array.ndim(); ++i) {
        text += std::to_string(array.shape(i));
        text += i + 1 < array.ndim() ? ", " : array.ndim() == 1 ? "," : "";
    }
    return "shape " + text + ")";
}

void check_array(const AnyArray& array, const char* what, nb::dlpack::dtype dtype,
                 const std::vector<std::int64_t>& shape) {
    if (array.dtype() != dtype) fail(what, "dtype " + dtype_text(dtype), dtype_text(array.dtype()));
    bool fits = array.ndim() == shape.size();
    for (std::size_t i = 0; fits && i < shape.size(); ++i) {
        fits = shape[i] == kAny || shape[i] == static_cast<std::int64_t>(array.shape(i));
    }
    if (fits) return;
    std::string expected = "shape (";
    for (std::size_t i = 0; i < shape.size(); ++i) {
        expected += shape[i] == kAny ? "*" : std::to_string(shape[i]);
        expected += i + 1 < shape.size() ? ", " : shape.size() == 1 ? "," : "";
    }
    fail(what, expected + ")", shape_text(array));
}

Rows::Rows(const AnyArray& array, std::size_t item_bytes) : data_(array.data()), strides_(array.ndim()) {
    const std::size_t last = array.ndim() - 1;
    bool usable = reinterpret_cast<std::uintptr_t>(data_) % kAlignment == 0;
    std::ptrdiff_t packed = 1;
    contiguous_ = true;
    for (std::size_t i = array.ndim(); i-- > 0;) {
        strides_[i] = static_cast<std::ptrdiff_t>(array.stride(i));
        if (array.shape(i) > 1) {
            contiguous_ = contiguous_ && strides_[i] == packed;
            usable = usable && (i == last ? strides_[i] == 1
                                          : strides_[i] * static_cast<std::ptrdiff_t>(item_bytes) %
                                                    static_cast<std::ptrdiff_t>(kAlignment) ==
                                                0);
        }
        packed *= static_cast<std::ptrdiff_t>(array.shape(i));
    }
    if (!usable && packed > 0) copy(array, item_bytes);
}

void Rows::copy(const AnyArray& array, std::size_t item_bytes) {
    const std::size_t dimensions = array.ndim();
    std::vector<std::ptrdiff_t> from_strides = strides_;
    std::ptrdiff_t items = 1;
    for (std::size_t i = dimensions; i-- > 0;) {
        strides_[i] = items;
        items *= static_cast<std::ptrdiff_t>(array.shape(i));
    }
    copy_ = Buffer(static_cast<std::size_t>(items) * item_bytes);
    const char* const from = static_cast<const char*>(data_);
    char* const to = static_cast<char*>(copy_.data());
    std::vector<std::size_t> index(dimensions, 0);
    const std::size_t row = array.shape(dimensions - 1);
    const std::ptrdiff_t step = from_strides[dimensions - 1];
    for (std::ptrdiff_t done = 0; done < items; done += static_cast<std::ptrdiff_t>(row)) {
        std::ptrdiff_t offset = 0;
        for (std::size_t i = 0; i + 1 < dimensions; ++i) {
            offset += static_cast<std::ptrdiff_t>(index[i]) * from_strides[i];
        }
        for (std::size_t j = 0; j < row; ++j) {
            std::memcpy(to + (static_cast<std::size_t>(done) + j) * item_bytes,
                        from + (offset + static_cast<std::ptrdiff_t>(j) * step) *
                                   static_cast<std::ptrdiff_t>(item_bytes),
                        item_bytes);
        }
        for (std::size_t i = dimensions - 1; i-- > 0;) {
            if (++index[i] < array.shape(i)) break;
            index[i] = 0;
        }
    }
    data_ = to;
    contiguous_ = true;
}

Ciphertext::Ciphertext(const Context& context, const AnyArray& array, const char* what)
    : argument_(array, what, {kAny, kAny, static_cast<std::int64_t>(context.n())}) {
    const std::size_t components = argument_.shape(0);
    const std::size_t limbs = argument_.shape(1);
    if (components < 2 || components > 3) fail(what, "2 or 3 components", shape_text(array));
    if (limbs < 1 || limbs > static_cast<std::size_t>(context.num_q())) {
        fail(what, "1 to " + std::to_string(context.num_q()) + " limbs", shape_text(array));
    }
    view_ = {argument_.data(), static_cast<int>(components), static_cast<int>(limbs), argument_.stride(0),
             argument_.stride(1)};
}

SwitchingKey::SwitchingKey(const Context& context, const AnyArray& array, const char* what)
    : argument_(array, what, {kAny, 2, kAny, static_cast<std::int64_t>(context.key_words())}) {
    if (context.num_p() == 0) fail(what, "a context with special primes", "none");
    const std::int64_t limbs = static_cast<std::int64_t>(argument_.shape(2)) - context.num_p();
    if (limbs < 1 || limbs > context.num_q()) {
        fail(what,
             std::to_string(1 + context.num_p()) + " to " +
                 std::to_string(context.num_q() + context.num_p()) + " limbs with the special ones",
             shape_text(array));
    }
    const std::size_t digits = static_cast<std::size_t>(context.digits(static_cast<int>(limbs)));
    if (argument_.shape(0) != digits) {
        fail(what, std::to_string(digits) + " digits for " + std::to_string(limbs) + " limbs",
             shape_text(array));
    }
    const std::ptrdiff_t words = static_cast<std::ptrdiff_t>(context.key_words());
    const std::ptrdiff_t rows = limbs + context.num_p();
    if ((argument_.shape(0) > 1 && argument_.stride(0) != 2 * rows * words) ||
        argument_.stride(1) != rows * words || (rows > 1 && argument_.stride(2) != words)) {
        fail(what, "a C-contiguous array", "other strides");
    }
    view_ = {context, argument_.data(), static_cast<int>(limbs)};
}

}  // namespace cipherblas::core
