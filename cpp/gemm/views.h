// Matrices in memory: where the entries lie and what they are.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cipherblas::gemm {

// What one entry is: a residue in [0, q), or a signed integer (as a double: below 2^53 in absolute value).
enum class Item { kResidue, kInt8, kInt16, kInt32, kInt64, kDouble };
inline constexpr int kItems = 6;

constexpr std::size_t item_bytes(Item item) {
    constexpr std::size_t bytes[kItems] = {8, 1, 2, 4, 8, 8};
    return bytes[static_cast<int>(item)];
}

// An operand. Strides in items, of either sign or 0, so that transposed and reversed views are used in place.
struct MatrixView {
    const void* data = nullptr;
    Item item = Item::kResidue;
    std::size_t rows = 0, cols = 0;
    std::ptrdiff_t row_stride = 0, col_stride = 1;

    const void* at(std::size_t row, std::size_t col) const {
        const std::ptrdiff_t offset =
            static_cast<std::ptrdiff_t>(row) * row_stride + static_cast<std::ptrdiff_t>(col) * col_stride;
        return static_cast<const char*>(data) + offset * static_cast<std::ptrdiff_t>(item_bytes(item));
    }
    MatrixView transposed() const { return {data, item, cols, rows, col_stride, row_stride}; }
    // Rows and columns from (row, col) on, at most so many; empty where that lies outside.
    MatrixView block(std::size_t row, std::size_t col, std::size_t row_count, std::size_t col_count) const {
        MatrixView result = *this;
        result.rows = row < rows ? std::min(row_count, rows - row) : 0;
        result.cols = col < cols ? std::min(col_count, cols - col) : 0;
        if (result.rows > 0 && result.cols > 0) result.data = at(row, col);
        return result;
    }
};

// A result: residues, each row contiguous.
struct MatrixSpan {
    std::uint64_t* data = nullptr;
    std::size_t rows = 0, cols = 0;
    std::ptrdiff_t row_stride = 0;

    std::uint64_t* row(std::size_t i) const { return data + static_cast<std::ptrdiff_t>(i) * row_stride; }
    MatrixSpan block(std::size_t row, std::size_t col, std::size_t row_count, std::size_t col_count) const {
        MatrixSpan result = *this;
        result.rows = row < rows ? std::min(row_count, rows - row) : 0;
        result.cols = col < cols ? std::min(col_count, cols - col) : 0;
        if (result.rows > 0 && result.cols > 0) {
            result.data = this->row(row) + static_cast<std::ptrdiff_t>(col);
        }
        return result;
    }
};

// Calls body(pointer) with the entries as the type that they are; residues come as std::uint64_t.
template <typename Body>
decltype(auto) with_item(const MatrixView& view, const Body& body) {
    switch (view.item) {
        case Item::kInt8:
            return body(static_cast<const std::int8_t*>(view.data));
        case Item::kInt16:
            return body(static_cast<const std::int16_t*>(view.data));
        case Item::kInt32:
            return body(static_cast<const std::int32_t*>(view.data));
        case Item::kInt64:
            return body(static_cast<const std::int64_t*>(view.data));
        case Item::kDouble:
            return body(static_cast<const double*>(view.data));
        case Item::kResidue:
            break;
    }
    return body(static_cast<const std::uint64_t*>(view.data));
}

constexpr std::size_t ceil_div(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

}  // namespace cipherblas::gemm
