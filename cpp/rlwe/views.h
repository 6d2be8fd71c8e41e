// Views of limbs that somebody else owns; consecutive limbs (and components) are a stride apart.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cipherblas {

// One polynomial in RNS form.
struct PolynomialView {
    const std::uint64_t* data = nullptr;
    std::ptrdiff_t limb_stride = 0;

    const std::uint64_t* limb(int i) const { return data + i * limb_stride; }
};

// A ciphertext (b, a) or (b, a, c2), NTT form.
struct CiphertextView {
    const std::uint64_t* data = nullptr;
    int components = 0;
    int limbs = 0;
    std::ptrdiff_t component_stride = 0;
    std::ptrdiff_t limb_stride = 0;

    PolynomialView component(int c) const { return {data + c * component_stride, limb_stride}; }
    const std::uint64_t* limb(int c, int i) const { return data + c * component_stride + i * limb_stride; }
};

// Rows of matrices by coefficients, [limbs][rows][columns].
struct RowsView {
    const std::uint64_t* data = nullptr;
    std::ptrdiff_t limb_stride = 0, row_stride = 0;

    const std::uint64_t* row(int limb, std::size_t i) const {
        return data + limb * limb_stride + static_cast<std::ptrdiff_t>(i) * row_stride;
    }
};

// The product (b, a, c2) of two ciphertexts times a number, plus another ciphertext times one and a number in every slot, made
// where it is read. Numbers are residues, one for each limb.
struct ProductView {
    CiphertextView left, right;
    const std::uint64_t* left_factors = nullptr;  // that the left one is multiplied by; null: 1
    const std::uint64_t* factors = nullptr;       // that their product is multiplied by; null: 1
    CiphertextView added = {};                    // without data: none
    const std::uint64_t* added_factors = nullptr;
    const std::uint64_t* constants = nullptr;  // null: 0
};

// A ciphertext in contiguous memory.
struct CiphertextSpan {
    std::uint64_t* data = nullptr;
    int components = 0;
    int limbs = 0;
    std::size_t n = 0;

    std::uint64_t* limb(int c, int i) const {
        return data +
               (static_cast<std::size_t>(c) * static_cast<std::size_t>(limbs) + static_cast<std::size_t>(i)) *
                   n;
    }
    std::size_t words() const {
        return static_cast<std::size_t>(components) * static_cast<std::size_t>(limbs) * n;
    }
};

}  // namespace cipherblas
