#include "gemm/products.h"

namespace cipherblas::gemm {
namespace {

std::vector<Product> one_level() {
    return {
        {{{0, 0, 1}, {1, 1, 1}}, {{0, 0, 1}, {1, 1, 1}}, {{0, 0, 1}, {1, 1, 1}}},
        {{{1, 0, 1}, {1, 1, 1}}, {{0, 0, 1}}, {{1, 0, 1}, {1, 1, -1}}},
        {{{0, 0, 1}}, {{0, 1, 1}, {1, 1, -1}}, {{0, 1, 1}, {1, 1, 1}}},
        {{{1, 1, 1}}, {{1, 0, 1}, {0, 0, -1}}, {{0, 0, 1}, {1, 0, 1}}},
        {{{0, 0, 1}, {0, 1, 1}}, {{1, 1, 1}}, {{0, 0, -1}, {0, 1, 1}}},
        {{{1, 0, 1}, {0, 0, -1}}, {{0, 0, 1}, {0, 1, 1}}, {{1, 1, 1}}},
        {{{0, 1, 1}, {1, 1, -1}}, {{1, 0, 1}, {1, 1, 1}}, {{0, 0, 1}}},
    };
}

// Each block of the outer sum is itself a 2 x 2 grid in which the inner sum is taken.
std::vector<Term> nested(const std::vector<Term>& outer, const std::vector<Term>& inner) {
    std::vector<Term> result;
    for (const Term& x : outer) {
        for (const Term& y : inner) result.push_back({2 * x.row + y.row, 2 * x.col + y.col, x.sign * y.sign});
    }
    return result;
}

}  // namespace

std::vector<Product> strassen_products(int levels) {
    std::vector<Product> products = {{{{0, 0, 1}}, {{0, 0, 1}}, {{0, 0, 1}}}};
    for (; levels > 0; --levels) {
        std::vector<Product> finer;
        for (const Product& outer : products) {
            for (const Product& inner : one_level()) {
                finer.push_back(
                    {nested(outer.a, inner.a), nested(outer.b, inner.b), nested(outer.c, inner.c)});
            }
        }
        products = std::move(finer);
    }
    return products;
}

}  // namespace cipherblas::gemm
