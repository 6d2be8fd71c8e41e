#include "gemm/kernels/counting.h"

#include <atomic>

#include "gemm/blas.h"
#include "gemm/kernels.h"

namespace cipherblas::gemm {
namespace {

using Word = std::uint64_t;

struct Totals {
    std::atomic<std::uint64_t> tile_macs{0};      // multiply-adds modulo q, those of padding included
    std::atomic<std::uint64_t> narrow_macs{0};    // of narrow ones
    std::atomic<std::uint64_t> tile_inputs{0};    // entries that are packed, those of padding left out
    std::atomic<std::uint64_t> tile_outputs{0};   // entries of tiles that are merged into results
    std::atomic<std::uint64_t> float_macs{0};     // multiply-adds by the BLAS
    std::atomic<std::uint64_t> float_inputs{0};   // entries that become float64 numbers
    std::atomic<std::uint64_t> float_digits{0};   // entries that digits are split off from
    std::atomic<std::uint64_t> float_outputs{0};  // float64 results that become residues
    std::atomic<std::uint64_t> byte_macs{0};      // multiply-adds of bytes, those of padding included
    std::atomic<std::uint64_t> byte_inputs{0};    // entries that are packed as bytes
};

Totals totals;
const GemmKernels* inner = nullptr;
std::atomic<CblasDgemm> blas{nullptr};

void count(std::atomic<std::uint64_t>& total, std::size_t entries) {
    total.fetch_add(entries, std::memory_order_relaxed);
}

void tile(Word* r, const Word* a, const Word* b, std::size_t k, const GemmModulus& m) {
    count(totals.tile_macs, kTileRows * kTileCols * k);
    inner->tile(r, a, b, k, m);
}

void narrow_tile(Word* r, const Word* a, const Word* b, std::size_t k, const GemmModulus& m) {
    count(totals.narrow_macs, kTileRows * kTileCols * k);
    inner->narrow_tile(r, a, b, k, m);
}

void merge(Word* c, std::ptrdiff_t row_stride, const Word* r, std::size_t rows, std::size_t cols, Merge how,
           const Modulus& m) {
    count(totals.tile_outputs, rows * cols);
    inner->merge(c, row_stride, r, rows, cols, how, m);
}

void pack(Word* packed, const Word* from, const PanelShape& shape, PackStep step, Word q) {
    count(totals.tile_inputs, shape.width * shape.panels * shape.depth);
    inner->pack(packed, from, shape, step, q);
}

void to_double(double* r, const void* a, Item item, std::ptrdiff_t stride, std::size_t n, const Modulus& m) {
    count(totals.float_inputs, n);
    inner->to_double(r, a, item, stride, n, m);
}

void split(double* x, double* high, int width, std::size_t n) {
    count(totals.float_digits, n);
    inner->split(x, high, width, n);
}

void reduce(Word* c, const double* r, std::int64_t weight, bool accumulate, std::size_t n, const Modulus& m) {
    count(totals.float_outputs, n);
    inner->reduce(c, r, weight, accumulate, n, m);
}

void byte_tile(double* r, const std::int8_t* a, const std::uint8_t* b, std::size_t quads, double weight,
               bool accumulate) {
    count(totals.byte_macs, kByteRows * kByteCols * kQuad * quads);
    inner->byte_tile(r, a, b, quads, weight, accumulate);
}

void byte_sums(std::int32_t* r, const std::int8_t* a, const std::uint8_t* b, std::size_t quads,
               bool accumulate) {
    count(totals.byte_macs, kByteRows * kByteCols * kQuad * quads);
    inner->byte_sums(r, a, b, quads, accumulate);
}

void byte_pack(std::uint8_t* packed, std::size_t pitch, const Word* const* lines, std::size_t words,
               int planes, const std::uint8_t* moduli) {
    count(totals.byte_inputs, kQuad * words);
    inner->byte_pack(packed, pitch, lines, words, planes, moduli);
}

void dgemm(int order, int trans_a, int trans_b, std::int64_t m, std::int64_t n, std::int64_t k, double alpha,
           const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c,
           std::int64_t ldc) {
    count(totals.float_macs, static_cast<std::size_t>(m * n * k));
    blas.load()(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

GemmKernels table;

// The numbers of `totals`, under the names that `kernel_counts` gives them.
template <typename Body>
void for_each_total(const Body& body) {
    body("tile_macs", totals.tile_macs);
    body("narrow_macs", totals.narrow_macs);
    body("tile_inputs", totals.tile_inputs);
    body("tile_outputs", totals.tile_outputs);
    body("float_macs", totals.float_macs);
    body("float_inputs", totals.float_inputs);
    body("float_digits", totals.float_digits);
    body("float_outputs", totals.float_outputs);
    body("byte_macs", totals.byte_macs);
    body("byte_inputs", totals.byte_inputs);
}

}  // namespace

const GemmKernels* counting_table(const GemmKernels& counted) {
    inner = &counted;
    const bool tiles = counted.tile != nullptr;
    table = {.name = counted.name,
             .tile = tiles ? tile : nullptr,
             .narrow_tile = tiles ? narrow_tile : nullptr,
             .merge = tiles ? merge : nullptr,
             .pack = tiles ? pack : nullptr,
             .to_double = to_double,
             .split = split,
             .reduce = reduce,
             .byte_tile = tiles ? byte_tile : nullptr,
             .byte_sums = tiles ? byte_sums : nullptr,
             .byte_fold = counted.byte_fold,
             .byte_pack = tiles ? byte_pack : nullptr};
    return &table;
}

void clear_kernel_counts() {
    for_each_total([](const char*, std::atomic<std::uint64_t>& total) { total = 0; });
}

KernelCounts kernel_counts() {
    KernelCounts counts;
    for_each_total([&](const char* name, const std::atomic<std::uint64_t>& total) {
        counts.emplace_back(name, total.load());
    });
    return counts;
}

void count_blas(bool on) {
    if (on && have_blas() && blas == nullptr) {
        blas = exchange_blas(dgemm);
    } else if (!on && blas != nullptr) {
        exchange_blas(blas);
        blas = nullptr;
    }
}

}  // namespace cipherblas::gemm
