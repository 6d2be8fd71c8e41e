#include "core/arrays.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

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

int checked_count(const AnyArray& array, const char* what, std::size_t count, int most, const char* unit) {
    if (count < 1 || count > static_cast<std::size_t>(most)) {
        fail(what, "1 to " + std::to_string(most) + " " + unit, shape_text(array));
    }
    return static_cast<int>(count);
}

namespace {

struct Extent {
    std::uintptr_t begin, end;

    explicit Extent(const AnyArray& array) {
        std::ptrdiff_t low = 0, high = 0;
        for (std::size_t i = 0; i < array.ndim(); ++i) {
            const auto reach = static_cast<std::ptrdiff_t>(array.shape(i) - 1) *
                               static_cast<std::ptrdiff_t>(array.stride(i));
            (reach < 0 ? low : high) += reach;
        }
        const auto bytes = static_cast<std::ptrdiff_t>(array.itemsize());
        begin = reinterpret_cast<std::uintptr_t>(array.data()) + static_cast<std::uintptr_t>(low * bytes);
        end =
            reinterpret_cast<std::uintptr_t>(array.data()) + static_cast<std::uintptr_t>((high + 1) * bytes);
    }
};

bool is_empty(const AnyArray& array) {
    for (std::size_t i = 0; i < array.ndim(); ++i) {
        if (array.shape(i) == 0) return true;
    }
    return false;
}

}  // namespace

bool may_overlap(const AnyArray& x, const AnyArray& y) {
    if (is_empty(x) || is_empty(y)) return false;
    const Extent a(x), b(y);
    return a.begin < b.end && b.begin < a.end;
}

void* writable(const nb::object& array, const char* what) {
    nb::ndarray<nb::device::cpu> result;
    if (!nb::try_cast(array, result, false)) fail(what, "a writable array", nb::str(array.type()).c_str());
    return result.data();
}

Memory::Memory(const AnyArray& array, const char* what, std::size_t item_bytes, Layout layout)
    : data_(array.data()), shape_(array.ndim()), strides_(array.ndim()) {
    for (std::size_t i = 0; i < array.ndim(); ++i) {
        shape_[i] = array.shape(i);
        strides_[i] = static_cast<std::ptrdiff_t>(array.stride(i));
    }
    if (bytes_of(shape_.data(), shape_.size(), item_bytes) == 0) return;
    const bool flat = layout == Layout::kPacked || layout == Layout::kFlat;
    if (flat && !is_contiguous()) fail(what, "a C-contiguous array", "other strides");
    const bool usable = layout == Layout::kRows     ? has_aligned_rows(item_bytes)
                        : layout == Layout::kPacked ? is_aligned(kAlignment)
                                                    : is_aligned(std::min(item_bytes, alignof(double)));
    if (!usable) copy(item_bytes);
}

bool Memory::is_contiguous() const {
    std::ptrdiff_t packed = 1;
    for (std::size_t i = shape_.size(); i-- > 0;) {
        if (shape_[i] > 1 && strides_[i] != packed) return false;
        packed *= static_cast<std::ptrdiff_t>(shape_[i]);
    }
    return true;
}

bool Memory::is_aligned(std::size_t bytes) const {
    return reinterpret_cast<std::uintptr_t>(data_) % bytes == 0;
}

bool Memory::has_aligned_rows(std::size_t item_bytes) const {
    const std::size_t last = shape_.size() - 1;
    const auto step = static_cast<std::ptrdiff_t>(kAlignment / item_bytes);
    bool aligned = is_aligned(kAlignment) && (shape_[last] <= 1 || strides_[last] == 1);
    for (std::size_t i = 0; i < last; ++i) aligned = aligned && (shape_[i] <= 1 || strides_[i] % step == 0);
    return aligned;
}

void Memory::copy(std::size_t item_bytes) {
    const std::size_t dimensions = shape_.size();
    const std::vector<std::ptrdiff_t> from_strides = strides_;
    copy_ = Buffer(bytes_of(shape_.data(), dimensions, item_bytes));
    std::ptrdiff_t items = 1;
    for (std::size_t i = dimensions; i-- > 0;) {
        strides_[i] = items;
        items *= static_cast<std::ptrdiff_t>(shape_[i]);
    }
    const char* const from = static_cast<const char*>(data_);
    char* const to = static_cast<char*>(copy_.data());
    std::vector<std::size_t> index(dimensions, 0);
    const std::size_t row = shape_[dimensions - 1];
    const std::ptrdiff_t step = from_strides[dimensions - 1];
    for (std::ptrdiff_t done = 0; done < items; done += static_cast<std::ptrdiff_t>(row)) {
        std::ptrdiff_t offset = 0;
        for (std::size_t i = 0; i + 1 < dimensions; ++i) {
            offset += static_cast<std::ptrdiff_t>(index[i]) * from_strides[i];
        }
        if (step == 1 && row > 0) {  // merely not aligned
            std::memcpy(to + static_cast<std::size_t>(done) * item_bytes,
                        from + offset * static_cast<std::ptrdiff_t>(item_bytes), row * item_bytes);
        }
        for (std::size_t j = 0; step != 1 && j < row; ++j) {
            std::memcpy(to + (static_cast<std::size_t>(done) + j) * item_bytes,
                        from + (offset + static_cast<std::ptrdiff_t>(j) * step) *
                                   static_cast<std::ptrdiff_t>(item_bytes),
                        item_bytes);
        }
        for (std::size_t i = dimensions - 1; i-- > 0;) {
            if (++index[i] < shape_[i]) break;
            index[i] = 0;
        }
    }
    data_ = to;
}

Ciphertext::Ciphertext(const Context& context, const AnyArray& array, const char* what, int most)
    : argument_(array, what, {kAny, kAny, length(context.n())}) {
    const std::size_t components = argument_.shape(0);
    if (components < 2 || components > static_cast<std::size_t>(most)) {
        fail(what, most == 3 ? "2 or 3 components" : "2 to " + std::to_string(most) + " components",
             shape_text(array));
    }
    const int limbs = checked_count(array, what, argument_.shape(1), context.num_q(), "limbs");
    view_ = {argument_.origin(), static_cast<int>(components), limbs, argument_.stride(0),
             argument_.stride(1)};
}

LimbsOfQ::LimbsOfQ(const Context& context, const AnyArray& array, const char* what)
    : argument_(array, what, {kAny, length(context.n())}),
      limbs_(checked_count(array, what, argument_.shape(0), context.num_q(), "limbs")) {}

int factor_limbs(const Context& context, const AnyArray& array, const char* what, bool special) {
    for (int limbs = 1; array.ndim() > 0 && limbs <= context.num_q(); ++limbs) {
        if (array.shape(0) == factor_halves(context, limbs, special)) return limbs;
    }
    fail(what,
         "the halves of 1 to " + std::to_string(context.num_q()) + " limbs" +
             (special ? " and of " + std::to_string(context.num_p()) + " special limbs" : ""),
         shape_text(array));
}

namespace {

// Positions of a limb that each word of a factor stands for.
std::size_t factor_repeats(const Context& context, const AnyArray& array, const char* what) {
    const std::size_t words = array.ndim() == 2 ? array.shape(1) : 0;
    if (std::has_single_bit(words) && words <= context.n()) {
        const std::size_t repeats = context.n() / words;
        if (repeats != 2 && repeats != 4) return repeats;
    }
    fail(what, "N words of a limb, or a power of two from N / 8 down", shape_text(array));
}

}  // namespace

Factor::Factor(const Context& context, const AnyArray& array, const char* what, bool special)
    : argument_(array, what, {kAny, special ? kAny : length(context.n())}),
      limbs_(factor_limbs(context, array, what, special)),
      repeats_(factor_repeats(context, array, what)) {}

int limbs_of_key_words(const Context& context, const AnyArray& array, const char* what, std::size_t words) {
    for (int limbs = 1; limbs <= context.num_q(); ++limbs) {
        if (context.key_words(limbs) == words) return limbs;
    }
    fail(what, "the words of 1 to " + std::to_string(context.num_q()) + " limbs and the special ones",
         shape_text(array));
}

namespace {

// The shape of a key for some number of limbs: that number.
int key_limbs(const Context& context, const AnyArray& array, const char* what) {
    check_array(array, what, nb::dtype<std::uint64_t>(), {kAny, 2, kAny});
    if (context.num_p() == 0) fail(what, "a context with special primes", "none");
    const int limbs = limbs_of_key_words(context, array, what, array.shape(2));
    const std::size_t digits = static_cast<std::size_t>(context.digits(limbs));
    if (array.shape(0) != digits) {
        fail(what, std::to_string(digits) + " digits for " + std::to_string(limbs) + " limbs",
             shape_text(array));
    }
    return limbs;
}

}  // namespace

SwitchingKey::SwitchingKey(const Context& context, const AnyArray& array, const char* what)
    : view_(context, nullptr, key_limbs(context, array, what)), argument_(array, what, {kAny, 2, kAny}) {
    view_.data = argument_.data();
}

std::vector<int> limb_positions(const Context& context, int limbs, bool special) {
    context.check_limbs(limbs);
    std::vector<int> positions;
    for (int i = 0; i < limbs; ++i) positions.push_back(i);
    for (int j = 0; special && j < context.num_p(); ++j) positions.push_back(context.num_q() + j);
    return positions;
}

std::vector<std::uint64_t> residues_of(const Context& context, const nb::object& integer, int limbs) {
    const nb::object value = nb::steal(PyNumber_Index(integer.ptr()));
    if (!value.is_valid()) throw nb::python_error();
    std::vector<std::uint64_t> residues;
    for (int i = 0; i < limbs; ++i) {
        residues.push_back(nb::cast<std::uint64_t>(value % nb::int_(context.modulus(i).q)));
    }
    return residues;
}

}  // namespace cipherblas::core
