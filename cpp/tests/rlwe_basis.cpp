// Base conversion, the memory pool and the parallel loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "arith/primes.h"
#include "ring/base_conversion.h"
#include "ring/pool.h"
#include "ring/threads.h"
#include "ring_support.h"
#include "rlwe/context.h"

namespace cipherblas {
namespace {

using i128 = __int128;
using testing::finish_ntt;

// Residues of some integers in NTT form become the residues of their centred representatives modulo other primes, by
// both layouts of a block and with the overflow counted beforehand or on the way, and so do their negatives.
void expect_centred_representatives(std::size_t n, int count, const std::vector<std::uint64_t>& primes) {
    const Basis basis(n, primes);
    std::mt19937_64 random(static_cast<std::uint64_t>(count));
    std::vector<int> sources;
    i128 product = 1;
    for (int i = 0; i < count; ++i) {
        sources.push_back(2 * i);
        product *= static_cast<i128>(basis.modulus(2 * i).q);
    }
    const BaseConversion conversion(basis, sources);
    std::vector<i128> values(n);
    std::vector<AlignedVector<std::uint64_t>> x(static_cast<std::size_t>(count),
                                                AlignedVector<std::uint64_t>(n));
    for (std::size_t j = 0; j < n; ++j) {
        i128 value = (static_cast<i128>(random() >> 2) << 62 | static_cast<i128>(random() >> 2)) % product;
        if (j == 0) value = 0;
        if (j == 1) value = (product - 1) / 2;  // the largest centred value
        if (j == 2) value = (product + 1) / 2;  // the smallest
        if (j == 3) value = product - 1;
        values[j] = value > product / 2 ? value - product : value;
        for (std::size_t i = 0; i < x.size(); ++i) {
            x[i][j] = static_cast<std::uint64_t>(value % static_cast<i128>(basis.modulus(sources[i]).q));
        }
    }
    AlignedVector<std::uint64_t> block(x.size() * n), scratch(n), v(n), first(n), second(n);
    for (std::size_t i = 0; i < x.size(); ++i) kernels().ntt(x[i].data(), basis.table(sources[i]));
    struct Way {
        bool negated, together, counts;
    };
    for (const auto& [negated, together, counts] : {Way{false, false, true},
                                                    {false, false, false},
                                                    {false, true, false},
                                                    {true, false, true},
                                                    {true, true, false}}) {
        for (std::size_t i = 0; i < x.size(); ++i) {
            conversion.prepare(block.data(), static_cast<int>(i), {x[i].data(), nullptr, negated}, together,
                               scratch.data());
        }
        if (counts) conversion.overflow(v.data(), block.data(), 0, n);
        const int targets[] = {5, 1};
        std::uint64_t* const out[] = {first.data(), second.data()};
        conversion.convert(out, targets, 2, block.data(), together, counts ? v.data() : nullptr);
        for (int t = 0; t < 2; ++t) {
            finish_ntt(out[t], basis.table(targets[t]));
            kernels().intt(out[t], basis.table(targets[t]));
            const i128 q = static_cast<i128>(basis.modulus(targets[t]).q);
            for (std::size_t j = 0; j < n; ++j) {
                // Near the ends +-D/2 the float64 count of overflows may give either representative.
                const bool tie = count > 1 && (j == 1 || j == 2);
                const i128 value = negated ? -values[j] : values[j];
                const std::uint64_t expected = static_cast<std::uint64_t>((value % q + q) % q);
                const i128 other = value > 0 ? value - product : value + product;
                const std::uint64_t alternative = static_cast<std::uint64_t>((other % q + q) % q);
                ASSERT_TRUE(out[t][j] == expected || (tie && out[t][j] == alternative))
                    << "n " << n << " sources " << count << " negated " << negated << " together " << together
                    << " at " << j;
            }
        }
    }
    for (const int target : {5, 1}) {
        const Modulus& m = basis.modulus(target);
        EXPECT_EQ(mul_mod(conversion.product(target), conversion.inverse(target), m), 1u);
    }
}

TEST(BaseConversion, GivesTheCentredRepresentative) {
    for (const std::size_t n : {1024u, 4096u, 8192u}) {
        const std::vector<std::uint64_t> primes = primes_below(n, 40, 7);
        for (int count = 1; count <= 3; ++count) expect_centred_representatives(n, count, primes);
        // One target far below the source, and one near it.
        const std::vector<std::uint64_t> small = primes_below(n, 30, 1), large = primes_below(n, 41, 1);
        expect_centred_representatives(n, 1,
                                       {primes[0], primes[1], primes[2], primes[3], primes[4], small[0]});
        expect_centred_representatives(n, 1,
                                       {large[0], small[0], primes[2], primes[3], primes[4], primes[5]});
    }
}

TEST(BaseConversion, RefusesTooManyPrimes) {
    const Basis basis(8, primes_below(8, 30, 65));
    std::vector<int> sources(65);
    for (int i = 0; i < 65; ++i) sources[static_cast<std::size_t>(i)] = i;
    EXPECT_THROW(BaseConversion(basis, sources), std::invalid_argument);
    EXPECT_THROW(BaseConversion(basis, {}), std::invalid_argument);
}

TEST(Context, MakesAConversionOnce) {
    const std::vector<std::uint64_t> primes = primes_below(16, 45, 7);
    const Context context(16, {primes.begin(), primes.begin() + 5}, {primes.begin() + 5, primes.end()}, 2);
    const BaseConversion& first = context.conversion(4, 1, true);
    EXPECT_EQ(first.sources(), (std::vector<int>{4, 5, 6}));
    EXPECT_EQ(&first, &context.conversion(4, 1, true));
    EXPECT_NE(&first, &context.conversion(4, 1, false));
    EXPECT_EQ(context.digits(5), 3);
    EXPECT_EQ(context.digits(4), 2);
    EXPECT_EQ(context.digit_end(2, 5), 5);
}

TEST(Context, DividesLimbsIntoUnlikeDigits) {
    const std::vector<std::uint64_t> primes = primes_below(16, 45, 7);
    const std::vector<std::uint64_t> q(primes.begin(), primes.begin() + 5),
        p(primes.begin() + 5, primes.end());
    const Context context(16, q, p, 3, {1, 3, 1});
    const int digits[] = {1, 2, 2, 2, 3}, owners[] = {0, 1, 1, 1, 2};
    for (int limb = 0; limb < 5; ++limb) {
        EXPECT_EQ(context.digits(limb + 1), digits[limb]);
        EXPECT_EQ(context.owner(limb), owners[limb]);
    }
    EXPECT_EQ(context.digit_begin(1), 1);
    EXPECT_EQ(context.digit_end(1, 3), 3);
    EXPECT_EQ(context.digit_end(1, 5), 4);
    EXPECT_EQ(context.digit_end(2, 5), 5);
    for (const std::vector<int>& sizes :
         {std::vector<int>{3, 1}, {3, 3}, {1, 1, 1, 1, 1}, {2, 2, 1}, {4, 1}, {3, 0, 2}, {3, 3, -1}}) {
        EXPECT_THROW(Context(16, q, p, 3, sizes), std::invalid_argument);
    }
}

TEST(Basis, KeepsPermutationsAlive) {
    const Basis basis(8, primes_below(8, 40, 1));
    const auto held = basis.permutation(5);
    EXPECT_EQ(held, basis.permutation(5));
    for (std::uint64_t galois = 1; galois < 16; galois += 2) {
        EXPECT_EQ(basis.permutation(galois)->galois, galois);
    }
    EXPECT_EQ(held->galois, 5u);
    EXPECT_THROW(basis.permutation(4), std::invalid_argument);
    EXPECT_THROW(basis.permutation(17), std::invalid_argument);
}

TEST(Pool, RecyclesAlignedBlocks) {
    trim_pool();
    for (const std::size_t bytes :
         {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20, std::size_t{5} << 20}) {
        void* address = nullptr;
        {
            const Buffer buffer(bytes);
            address = buffer.data();
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % 64, 0u);
            EXPECT_GE(buffer.capacity(), bytes);
            EXPECT_LE(buffer.capacity(), bytes + bytes / 8 + 512);
            static_cast<char*>(address)[0] = 1;
            static_cast<char*>(address)[bytes - 1] = 1;
        }
        const std::size_t held = pool_bytes();
        const Buffer again(bytes);
        EXPECT_EQ(again.data(), address);
        EXPECT_EQ(pool_bytes(), held);
    }
    const std::size_t before = pool_bytes();
    trim_pool();
    EXPECT_LT(pool_bytes(), before);
}

TEST(Pool, LendsLargerBlocksWithinBounds) {
    constexpr std::size_t kMega = std::size_t{1} << 20;
    trim_pool();
    void* const idle = Buffer(16 * kMega).data();
    const std::size_t held = pool_bytes();
    {
        const Buffer one(9 * kMega);
        EXPECT_EQ(one.data(), idle);
        EXPECT_EQ(pool_bytes(), held);
        Buffer(32 * kMega);
        const Buffer two(17 * kMega);  // with the one before it, too much would be wasted
        EXPECT_LT(two.capacity(), 20 * kMega);
    }
    Buffer(32 * kMega);
    EXPECT_EQ(Buffer(20 * kMega).capacity(), 32 * kMega);
    Buffer(32 * kMega);
    EXPECT_LT(Buffer(kMega / 2).capacity(), kMega);
    trim_pool();
}

TEST(Pool, MovesOwnership) {
    Buffer first(4096);
    void* const data = first.data();
    Buffer second(std::move(first));
    EXPECT_EQ(second.data(), data);
    EXPECT_EQ(first.data(), nullptr);
    first = std::move(second);
    EXPECT_EQ(first.data(), data);
}

// Whether the first page that is a block's alone is held by the process.
bool resident([[maybe_unused]] void* data) {
#if defined(__linux__)
    constexpr std::size_t kPage = 4096;
    unsigned char held = 0;
    void* const page = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(data) / kPage + 1) * kPage);
    return mincore(page, kPage, &held) == 0 && (held & 1) != 0;
#else
    return false;
#endif
}

TEST(Pool, GivesBackThePagesOfBlocksBetweenThoseThatAreLent) {
    constexpr std::size_t kLeast = std::size_t{64} << 10;
    std::vector<std::pair<Buffer, std::uint64_t>> lent;
    std::vector<void*> released;
    std::mt19937_64 random(5);
    const auto take = [&](std::size_t bytes) {
        Buffer buffer(bytes);
        const std::uint64_t value = random();
        std::fill_n(buffer.words(), bytes / sizeof(value), value);
        lent.emplace_back(std::move(buffer), value);
    };
    for (int round = 0; round < 3; ++round) {
        trim_pool();
        for (std::size_t bytes = kLeast; bytes < std::size_t{4} << 20; bytes += bytes / 7) {
            for (int i = 0; i < 3; ++i) take(bytes);
        }
        std::shuffle(lent.begin(), lent.end(), random);
        released.clear();
        for (std::size_t left = lent.size() / 2; lent.size() > left; lent.pop_back()) {
            released.push_back(lent.back().first.data());
        }
        const std::size_t before = pool_bytes();
        trim_pool();
        EXPECT_LT(pool_bytes(), before);
        for (void* data : released) EXPECT_FALSE(resident(data));
        for (const auto& [buffer, value] : lent) {
            for (std::size_t i = 0; i < kLeast / sizeof(value); ++i) ASSERT_EQ(buffer.words()[i], value);
        }
    }
    lent.clear();
    trim_pool();
}

TEST(Pool, ServesManyThreads) {
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([t, &wrong] {
            for (int i = 0; i < 500; ++i) {
                const Buffer buffer = Buffer::of_words(static_cast<std::size_t>(100 + i % 7 * 2000));
                if (i % 50 == 0) trim_pool();
                for (int j = 0; j < 100; ++j) buffer.words()[j] = static_cast<std::uint64_t>(t);
                for (int j = 0; j < 100; ++j) wrong += buffer.words()[j] != static_cast<std::uint64_t>(t);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
}

class Threads : public ::testing::Test {
  protected:
    void TearDown() override { set_thread_count(before_); }
    int before_ = thread_count();
};

TEST_F(Threads, EveryTaskRunsOnce) {
    for (const int threads : {1, 2, 5}) {
        set_thread_count(threads);
        std::vector<std::atomic<int>> runs(1000);
        parallel_for(runs.size(), threads, [&](std::size_t task, int thread) {
            EXPECT_LT(thread, threads);
            ++runs[task];
        });
        for (const auto& count : runs) EXPECT_EQ(count, 1);
    }
}

TEST_F(Threads, RowsAreCoveredOnce) {
    for (const int threads : {1, 2, 7}) {
        set_thread_count(threads);
        for (const std::size_t n : {8u, 512u, 4096u, 65536u}) {
            for (const std::size_t rows : {0u, 1u, 3u, 40u}) {
                for (const std::size_t operations : {1u, 1u << 20}) {
                    std::vector<std::atomic<int>> words(rows * n / 8);
                    parallel_rows(rows, n, operations,
                                  [&](std::size_t row, std::size_t offset, std::size_t count) {
                                      EXPECT_EQ(offset % 8 + count % 8, 0u);
                                      for (std::size_t i = offset; i < offset + count; i += 8)
                                          ++words[(row * n + i) / 8];
                                  });
                    for (const auto& count : words) EXPECT_EQ(count, 1);
                }
            }
        }
    }
}

TEST_F(Threads, ExceptionsReachTheCaller) {
    for (const int threads : {1, 3}) {
        set_thread_count(threads);
        EXPECT_THROW(parallel_for(50,
                                  [](std::size_t task) {
                                      if (task == 20) throw std::runtime_error("task");
                                  }),
                     std::runtime_error);
    }
    EXPECT_THROW(set_thread_count(0), std::invalid_argument);
}

TEST_F(Threads, NestedLoopsStayOnOneThread) {
    set_thread_count(3);
    parallel_for(6, [](std::size_t) {
        if (thread_count() > 1 && threads_for(100) != 1) ADD_FAILURE() << "nested parallel loop";
    });
}

}  // namespace
}  // namespace cipherblas
