#include "gemm/gemm.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "gemm/blas.h"
#include "gemm/blocked.h"
#include "gemm/byte_gemm.h"
#include "gemm/float_gemm.h"
#include "gemm/kernels.h"
#include "gemm/lift.h"
#include "gemm/lines.h"
#include "gemm/reference.h"
#include "gemm/rounding.h"
#include "ring/pool.h"
#include "ring/threads.h"

namespace cipherblas::gemm {
namespace {

// Costs in multiply-adds of a float64 product, as measured on an AVX-512 machine: of one of a tile and of the reference,
// and of one entry that is packed for tiles or converted to a digit.
constexpr double kTileCost = 1.8;
constexpr double kNarrowTileCost = 1.15;  // of one of a narrow tile, which a level of Strassen's algorithm
constexpr double kNarrowLevel = 0.92;     // makes so much shorter
constexpr double kReferenceCost = 50;
constexpr double kPackingCost = 60;
constexpr double kDigitCost = 70;
constexpr double kByteCost = 0.14;       // of a product of bytes
constexpr double kBytePackingCost = 25;  // of each byte of an entry
// Where a level of Strassen's algorithm begins to win: the dimension of a cube. A level saves an eighth of the products and
// adds sums of blocks of all three matrices, so that of other shapes the harmonic mean of the dimensions counts.
constexpr double kStrassenFrom = 1152;
constexpr double kStrassen2From = 2560;
constexpr std::uint64_t kLargestConverted = (std::uint64_t{1} << 50) - 1;

int levels_for(const MatrixView& a, const MatrixSpan& c) {
    const auto inverse = [](std::size_t length) { return 1 / static_cast<double>(length); };
    const double mean = 3 / (inverse(a.cols) + inverse(c.rows) + inverse(c.cols));
    return mean >= kStrassen2From ? 2 : mean >= kStrassenFrom ? 1 : 0;
}

// Whether entries up to `most` are multiplied by residues as bytes, on any machine that has such tiles.
bool are_bytes(Item item, std::uint64_t most, std::uint64_t q) {
    return signed_bytes(item, most) > 0 && q >= kLeastByteModulus;
}

Path choose(const MatrixView& a, const MatrixSpan& c, const Splitting& splitting, std::uint64_t most,
            std::uint64_t q) {
    const auto m = static_cast<double>(c.rows);
    const auto k = static_cast<double>(a.cols);
    const auto n = static_cast<double>(c.cols);
    const auto whole = [](std::size_t length, std::size_t tile) {
        return static_cast<double>(ceil_div(length, tile) * tile);
    };
    const int levels = levels_for(a, c);
    const double reference = kReferenceCost * m * k * n;
    const double tile =
        has_narrow_sums(q, levels) ? kNarrowTileCost * std::pow(kNarrowLevel, levels) : kTileCost;
    const double tiles =
        tile * whole(c.rows, kTileRows) * k * whole(c.cols, kTileCols) + kPackingCost * (m * k + k * n);
    const double digits =
        splitting.cost * m * k * n + kDigitCost * (splitting.a.parts * m * k + splitting.b.parts * k * n);
    const bool have_tiles = path_available(Path::kIfma);
    const double least =
        std::min({reference, have_tiles ? tiles : reference, have_blas() ? digits : reference});
    if (path_available(Path::kBytes) && are_bytes(a.item, most, q)) {
        const double left = signed_bytes(a.item, most), right = (std::bit_width(q - 1) + 7) / 8;
        const double bytes = kByteCost * left * right * whole(c.rows, kByteRows) * whole(a.cols, kQuad) *
                                 whole(c.cols, kByteCols) +
                             kBytePackingCost * (left * m * k + right * k * n);
        if (bytes < least) return Path::kBytes;
    }
    if (have_blas() && digits < reference && (!have_tiles || digits < tiles)) return Path::kExact;
    if (!have_tiles || reference < tiles) return Path::kScalar;
    constexpr Path by_levels[] = {Path::kIfma, Path::kStrassen, Path::kStrassen2};
    return by_levels[levels];
}

// The paths that multiply residues; integers are lifted as they are read.
void run(const MatrixView& a, const MatrixView& b, const MatrixSpan& c, std::uint64_t q, Path path,
         const Splitting& splitting, std::uint64_t most, bool accumulate) {
    const GemmModulus m(q);
    switch (path) {
        case Path::kScalar:
            return reference_gemm(a, b, c, m.m, accumulate);
        case Path::kIfma:
            return blocked_gemm(a, b, c, m, 0, accumulate);
        case Path::kStrassen:
            return blocked_gemm(a, b, c, m, 1, accumulate);
        case Path::kStrassen2:
            return blocked_gemm(a, b, c, m, 2, accumulate);
        case Path::kBytes:
            if (!are_bytes(a.item, most, q)) {
                throw std::invalid_argument("path: expected entries of two signed bytes and a modulus from " +
                                            std::to_string(kLeastByteModulus) + " on, got " +
                                            std::to_string(most) + " modulo " + std::to_string(q));
            }
            return byte_gemm(a, b, c, m.m, signed_bytes(a.item, most), accumulate);
        default:
            return float_gemm(a, b, c, m.m, splitting, accumulate);
    }
}

void check_path(Path path) {
    if (!path_available(path)) throw std::invalid_argument("path: not available on this machine");
}

// True if nothing is left to do: an empty result, or an empty sum.
bool is_trivial(const MatrixView& a, const MatrixSpan& c, bool accumulate) {
    if (c.rows == 0 || c.cols == 0) return true;
    if (a.cols > 0) return false;
    for (std::size_t i = 0; !accumulate && i < c.rows; ++i) std::fill_n(c.row(i), c.cols, 0);
    return true;
}

// Integers too large for exact digits, as residues.
Buffer lifted(const MatrixView& u, std::uint64_t q) {
    Buffer residues = Buffer::of_words(u.rows, u.cols);
    with_item(u, [&](const auto* entries) {
        parallel_for(u.rows, threads_for_work(u.rows, u.rows * u.cols), [&](std::size_t i, int) {
            for (std::size_t p = 0; p < u.cols; ++p) {
                residues.words()[i * u.cols + p] =
                    lift(entries[static_cast<std::ptrdiff_t>(i) * u.row_stride +
                                 static_cast<std::ptrdiff_t>(p) * u.col_stride],
                         q);
            }
        });
    });
    return residues;
}

std::uint64_t magnitude(std::uint64_t x) { return x; }
std::uint64_t magnitude(std::int64_t x) {
    const auto bits = static_cast<std::uint64_t>(x);
    return x < 0 ? 0 - bits : bits;
}
std::uint64_t magnitude(std::int8_t x) { return static_cast<std::uint64_t>(x < 0 ? -x : x); }
std::uint64_t magnitude(std::int16_t x) { return static_cast<std::uint64_t>(x < 0 ? -x : x); }
std::uint64_t magnitude(std::int32_t x) { return magnitude(std::int64_t{x}); }
std::uint64_t magnitude(double x) {
    constexpr double kLimit = 0x1p53;
    if (!(x > -kLimit && x < kLimit) || static_cast<double>(static_cast<std::int64_t>(x)) != x) {
        throw std::invalid_argument("u: expected integers below 2^53 in absolute value, got " +
                                    std::to_string(x));
    }
    return magnitude(static_cast<std::int64_t>(x));
}

}  // namespace

bool path_available(Path path) {
    switch (path) {
        case Path::kIfma:
        case Path::kStrassen:
        case Path::kStrassen2:
        case Path::kNarrow:
            return gemm_kernels().tile != nullptr;
        case Path::kBytes:
            return gemm_kernels().byte_tile != nullptr;
        case Path::kExact:
        case Path::kRounded:
            return have_blas();
        default:
            return true;
    }
}

void modular_gemm(const MatrixView& a, const MatrixView& b, const MatrixSpan& c, std::uint64_t q, Path path,
                  bool accumulate) {
    check_path(path);
    if (path == Path::kRounded || path == Path::kNarrow) {
        throw std::invalid_argument("path: expected an exact one of residues");
    }
    if (is_trivial(a, c, accumulate)) return;
    const Splitting splitting = plan_splitting(q / 2, q / 2, a.cols);
    run(a, b, c, q, path == Path::kAuto ? choose(a, c, splitting, q / 2, q) : path, splitting, q / 2,
        accumulate);
}

void small_gemm(const MatrixView& u, const MatrixView& b, const MatrixSpan& c, std::uint64_t q,
                std::uint64_t max_u, Path path, bool accumulate) {
    check_path(path);
    if (is_trivial(u, c, accumulate)) return;
    const GemmModulus m(q);
    if (path == Path::kRounded) {
        if (max_u > kRoundedLargest) {
            throw std::invalid_argument("u: expected entries below 2^40 on the rounded path, got " +
                                        std::to_string(max_u));
        }
        const Splitting whole = {{1, 0, max_u}, {1, 0, q / 2}, kRoundedDepth, 1.0};
        return float_gemm(u, b, c, m.m, whole, accumulate);
    }
    const bool narrow = max_u <= kNarrowOffset && q >> kNarrowBits == 0 && u.item != Item::kResidue;
    if (path == Path::kNarrow) {
        if (!narrow) {
            throw std::invalid_argument("u: expected entries up to 2^15 and a modulus below 2^36, got " +
                                        std::to_string(max_u));
        }
        return narrow_gemm(u, b, c, m, accumulate);
    }
    if (max_u > q / 2 || max_u > kLargestConverted) {
        if (path == Path::kAuto || path == Path::kExact) {
            const Buffer residues = lifted(u, q);
            const MatrixView a = {
                residues.words(), Item::kResidue, u.rows, u.cols, static_cast<std::ptrdiff_t>(u.cols), 1};
            return modular_gemm(a, b, c, q, path, accumulate);
        }
    }
    const Splitting splitting = plan_splitting(max_u, q / 2, u.cols);
    run(u, b, c, q, path == Path::kAuto ? choose(u, c, splitting, max_u, q) : path, splitting, max_u,
        accumulate);
}

bool all_below(const MatrixView& view, std::uint64_t bound) {
    const Lines lines(view);
    const auto* const entries = static_cast<const std::uint64_t*>(view.data);
    std::atomic<bool> good{true};
    lines.each([&](std::ptrdiff_t start, std::size_t) {
        // The sign bit of either marks a word that is too large: a loop that the compiler vectorises.
        std::uint64_t signs = 0;
        for (std::size_t i = 0; i < lines.length; ++i) {
            const std::uint64_t x = entries[start + static_cast<std::ptrdiff_t>(i) * lines.along];
            signs |= x | (bound - 1 - x);
        }
        if (signs >> 63 != 0) good = false;
    });
    return good;
}

std::uint64_t largest_magnitude(const MatrixView& view) {
    const Lines lines(view);
    std::vector<std::uint64_t> largest(lines.count, 0);
    with_item(view, [&](const auto* entries) {
        lines.each([&](std::ptrdiff_t start, std::size_t line) {
            std::uint64_t most = 0;
            for (std::size_t i = 0; i < lines.length; ++i) {
                most =
                    std::max(most, magnitude(entries[start + static_cast<std::ptrdiff_t>(i) * lines.along]));
            }
            largest[line] = most;
        });
    });
    return lines.count == 0 ? 0 : *std::max_element(largest.begin(), largest.end());
}

}  // namespace cipherblas::gemm
