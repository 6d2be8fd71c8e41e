// The paths of modular_gemm against the definition, bit for bit, and the definition against sums in 128-bit integers.
#include <gtest/gtest.h>

#include "gemm/byte_gemm.h"
#include "gemm/kernels.h"
#include "gemm/products.h"
#include "gemm/reference.h"
#include "gemm_support.h"
#include "ring/aligned.h"
#include "ring/threads.h"
#include "valgrind.h"

namespace cipherblas::testing {
namespace {

struct Shape {
    std::size_t m, k, n;
};
constexpr Shape kShapes[] = {{1, 1, 1},    {1, 7, 1},    {5, 1, 3},     {4, 24, 24},  {3, 511, 25},
                             {7, 512, 23}, {9, 513, 49}, {97, 131, 31}, {8, 64, 401}, {200, 33, 26}};
constexpr Path kPaths[] = {Path::kAuto,      Path::kScalar, Path::kIfma, Path::kStrassen,
                           Path::kStrassen2, Path::kBytes,  Path::kExact};

bool takes(Path path, std::uint64_t q) {
    const bool bytes = q >= gemm::kLeastByteModulus && gemm::signed_bytes(Item::kResidue, q / 2) > 0;
    return gemm::path_available(path) && (path != Path::kBytes || bytes);
}

class ModularGemm : public ::testing::Test {
  protected:
    static void SetUpTestSuite() { load_blas(); }
    std::mt19937_64 random{20240607};

    Residues make(std::size_t rows, std::size_t cols, std::uint64_t q, Layout layout = Layout::kRows) {
        Residues result(rows, cols, layout);
        fill(result, [&](std::size_t, std::size_t) { return random() % 5 == 0 ? q - 1 : random() % q; });
        return result;
    }
};

// A product of residues with what it should be: by the definition, once, for all paths.
class KnownProduct {
  public:
    KnownProduct(Residues a, Residues b, std::uint64_t q)
        : a_(std::move(a)), b_(std::move(b)), q_(q), want_(a_.rows, b_.cols), twice_(a_.rows, b_.cols) {
        gemm::reference_gemm(a_.view(), b_.view(), want_.span(), Modulus(q), false);
        twice_.storage = want_.storage;
        gemm::reference_gemm(a_.view(), b_.view(), twice_.span(), Modulus(q), true);
    }

    void expect_by_all_paths() const {
        for (const Path path : kPaths) {
            if (!takes(path, q_)) continue;
            const auto where = [&] {
                return ::testing::Message() << "path " << static_cast<int>(path) << ", " << a_.rows << " x "
                                            << a_.cols << " x " << b_.cols << " mod " << q_;
            };
            Target got(a_.rows, b_.cols);
            gemm::modular_gemm(a_.view(), b_.view(), got.span(), q_, path, false);
            ASSERT_EQ(got.storage, want_.storage) << where();
            gemm::modular_gemm(a_.view(), b_.view(), got.span(), q_, path, true);
            ASSERT_EQ(got.storage, twice_.storage) << "accumulated, " << where();
        }
    }

  private:
    Residues a_, b_;
    std::uint64_t q_;
    Target want_, twice_;
};

TEST_F(ModularGemm, TheReferenceIsTheDefinition) {
    const std::uint64_t q = modulus_of(50);
    for (const Layout layout : kLayouts) {
        const Residues a = make(5, 9, q, layout);
        const Residues b = make(9, 70, q, layout);
        Target got(5, 70);
        gemm::modular_gemm(a.view(), b.view(), got.span(), q, Path::kScalar, false);
        for (std::size_t i = 0; i < 5; ++i) {
            for (std::size_t j = 0; j < 70; ++j) {
                u128 sum = 0;
                for (std::size_t p = 0; p < 9; ++p) sum += static_cast<u128>(a.at(i, p)) * b.at(p, j);
                ASSERT_EQ(got.at(i, j), static_cast<std::uint64_t>(sum % q));
            }
        }
        EXPECT_TRUE(got.gaps_untouched());
    }
}

TEST_F(ModularGemm, EveryPathAndShape) {
    for (const Shape& shape : kShapes) {
        for (const int bits : {2, 16, 22, 24, 25, 26, 37, 50}) {
            if (kWatched && (bits == 22 || bits == 24 || bits == 37)) continue;
            const std::uint64_t q = modulus_of(bits);
            KnownProduct(make(shape.m, shape.k, q), make(shape.k, shape.n, q), q).expect_by_all_paths();
        }
    }
}

// Moduli of one byte need not be primes.
TEST_F(ModularGemm, ModuliOfOneByte) {
    for (const std::uint64_t q : {255u, 253u, 251u, 129u, 127u, 3u}) {
        if (kWatched && (q == 253 || q == 251 || q == 3)) continue;
        for (const Shape& shape :
             {Shape{7, 512, 23}, Shape{25, 4099, 33}, Shape{205, 31, 26}, Shape{192, 4, 2}}) {
            for (const Layout layout : kLayouts) {
                KnownProduct(make(shape.m, shape.k, q, layout), make(shape.k, shape.n, q), q)
                    .expect_by_all_paths();
            }
        }
    }
}

TEST_F(ModularGemm, EveryLayout) {
    const std::uint64_t q = modulus_of(50);
    for (const Layout left : kLayouts) {
        for (const Layout right : kLayouts)
            KnownProduct(make(13, 29, q, left), make(29, 50, q, right), q).expect_by_all_paths();
    }
}

// The largest entries, and inner dimensions around the limits of the accumulators and of exact digits.
TEST_F(ModularGemm, LargestEntriesAndLongSums) {
    for (const std::size_t k : {1023u, 1024u, 1025u, 2047u, 2048u, 2049u, 4096u, 4097u, 8193u}) {
        if (kWatched && k % 1024 != 1) continue;
        for (const int bits : {16, 22, 24, 25, 26, 27, 50}) {
            const std::uint64_t q = modulus_of(bits);
            for (const std::uint64_t entry : {q - 1, q / 2, q / 2 + 1, std::uint64_t{0}}) {
                if (kWatched && entry != q - 1) continue;  // which memory is read does not depend on it
                Residues a(3, k);
                Residues b(k, 27);
                fill(a, [&](std::size_t, std::size_t) { return entry; });
                fill(b, [&](std::size_t, std::size_t) { return entry; });
                const auto expected =
                    static_cast<std::uint64_t>(static_cast<u128>(entry) * entry % q * k % q);
                for (const Path path : kPaths) {
                    if (!takes(path, q)) continue;
                    Target got(3, 27);
                    gemm::modular_gemm(a.view(), b.view(), got.span(), q, path, false);
                    for (std::size_t i = 0; i < 3; ++i) {
                        for (std::size_t j = 0; j < 27; ++j)
                            ASSERT_EQ(got.at(i, j), expected)
                                << k << ' ' << entry << ' ' << static_cast<int>(path);
                    }
                }
            }
        }
    }
}

// The tile alone, with as many products of factors as large as it promises to take.
TEST_F(ModularGemm, TileAtItsLimits) {
    const gemm::GemmKernels& kernels = gemm::gemm_kernels();
    if (kernels.tile == nullptr) GTEST_SKIP() << "no tile for " << kernels.name;
    const gemm::GemmModulus m(modulus_of(50));
    const struct {
        std::uint64_t factor;
        std::size_t k;
    } cases[] = {{2 * m.m.q - 1, gemm::kTileDepth},
                 {4 * m.m.q - 1, gemm::kTileDepthBelow4q},
                 {(std::uint64_t{1} << 51) - 1, gemm::kTileDepth},
                 {(std::uint64_t{1} << 52) - 1, gemm::kTileDepthBelow4q},
                 {1, 1},
                 {m.m.q, 2}};
    for (const auto& [factor, k] : cases) {
        AlignedVector<std::uint64_t> a(k * gemm::kTileRows, factor);
        AlignedVector<std::uint64_t> b(k * gemm::kTileCols, factor);
        a[0] = 1;  // one entry differs
        AlignedVector<std::uint64_t> r(gemm::kTileRows * gemm::kTileCols);
        kernels.tile(r.data(), a.data(), b.data(), k, m);
        const std::uint64_t square = mul_mod(factor % m.m.q, factor % m.m.q, m.m);
        const std::uint64_t whole = mul_mod(square, k, m.m);
        const std::uint64_t first = add_mod(mul_mod(square, k - 1, m.m), factor % m.m.q, m.m);
        for (std::size_t i = 0; i < r.size(); ++i)
            ASSERT_EQ(r[i], i < gemm::kTileCols ? first : whole) << factor << ' ' << k << ' ' << i;
    }
}

// Strassen's products in integers: each c block is the plain sum of products of blocks.
TEST_F(ModularGemm, StrassenProductsAreTheProduct) {
    for (int levels = 0; levels <= 2; ++levels) {
        const int grid = 1 << levels;
        const auto products = gemm::strassen_products(levels);
        std::size_t count = 1;
        for (int i = 0; i < levels; ++i) count *= 7;
        EXPECT_EQ(products.size(), count);
        std::vector<std::int64_t> a(static_cast<std::size_t>(grid * grid));
        std::vector<std::int64_t> b(a.size());
        std::vector<std::int64_t> c(a.size(), 0);
        for (auto& x : a) x = static_cast<std::int64_t>(random() % 1000);
        for (auto& x : b) x = static_cast<std::int64_t>(random() % 1000);
        const auto sum = [grid](const std::vector<std::int64_t>& x, const std::vector<gemm::Term>& terms) {
            std::int64_t total = 0;
            for (const gemm::Term& t : terms)
                total += t.sign * x[static_cast<std::size_t>(t.row * grid + t.col)];
            return total;
        };
        for (const gemm::Product& product : products) {
            EXPECT_LE(product.a.size(), static_cast<std::size_t>(grid));
            EXPECT_LE(product.b.size(), static_cast<std::size_t>(grid));
            for (const gemm::Term& t : product.c) {
                c[static_cast<std::size_t>(t.row * grid + t.col)] +=
                    t.sign * sum(a, product.a) * sum(b, product.b);
            }
        }
        for (int i = 0; i < grid; ++i) {
            for (int j = 0; j < grid; ++j) {
                std::int64_t want = 0;
                for (int p = 0; p < grid; ++p)
                    want +=
                        a[static_cast<std::size_t>(i * grid + p)] * b[static_cast<std::size_t>(p * grid + j)];
                EXPECT_EQ(c[static_cast<std::size_t>(i * grid + j)], want);
            }
        }
    }
}

// Larger than a block of every loop, and more threads than cores: nobody writes to another's entries. Valgrind shows no
// AVX-512, and so no tiles: what is left of the loops is cut, and shared among threads, at this size too.
TEST_F(ModularGemm, ManyBlocksAndThreads) {
    const int before = thread_count();
    const std::uint64_t q = modulus_of(50);
    set_thread_count(1);
    const Shape shape = kWatched ? Shape{20, 560, 480} : Shape{133, 1030, 775};
    const KnownProduct product(make(shape.m, shape.k, q), make(shape.k, shape.n, q), q);
    for (const int threads : {1, 3}) {
        set_thread_count(threads);
        product.expect_by_all_paths();
    }
    set_thread_count(before);
}

TEST_F(ModularGemm, EmptySums) {
    const Residues a(3, 0);
    const Residues b(0, 5);
    Target c(3, 5);
    gemm::modular_gemm(a.view(), b.view(), c.span(), 97, Path::kAuto, true);
    EXPECT_EQ(c.at(0, 0), Target::kUntouched);
    gemm::modular_gemm(a.view(), b.view(), c.span(), 97, Path::kAuto, false);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(c.at(i, 4), 0u);
    EXPECT_TRUE(c.gaps_untouched());
}

TEST_F(ModularGemm, Faults) {
    const Residues a(1, 1);
    Target c(1, 1);
    EXPECT_THROW(gemm::modular_gemm(a.view(), a.view(), c.span(), 96, Path::kAuto, false),
                 std::invalid_argument);
    EXPECT_THROW(gemm::modular_gemm(a.view(), a.view(), c.span(), 97, Path::kRounded, false),
                 std::invalid_argument);
    if (!gemm::path_available(Path::kIfma)) {
        EXPECT_THROW(gemm::modular_gemm(a.view(), a.view(), c.span(), 97, Path::kIfma, false),
                     std::invalid_argument);
    }
}

}  // namespace
}  // namespace cipherblas::testing
