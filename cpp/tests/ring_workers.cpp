#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

#if defined(__unix__)
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "ring/threads.h"

namespace cipherblas {
namespace {

class Workers : public ::testing::Test {
  protected:
    void SetUp() override { set_thread_count(2); }
    void TearDown() override { set_thread_count(before_); }
    int before_ = thread_count();
};

// The first test of this file: later ones may start more workers than the one that is busy here.
TEST_F(Workers, ALoopWaitsForNobodyWhoHasNotJoined) {
    std::latch both(2), release(1);
    std::thread first([&] {
        parallel_for(2, [&](std::size_t) {
            both.count_down();
            release.wait();
        });
    });
    both.wait();  // the worker is inside, and stays
    std::atomic<int> runs{0};
    parallel_for(100, [&](std::size_t) { ++runs; });
    EXPECT_EQ(runs, 100);
    release.count_down();
    first.join();
}

TEST_F(Workers, SeveralThreadsStartLoopsAtOnce) {
    std::vector<std::thread> callers;
    std::atomic<long> sum{0};
    for (int c = 0; c < 4; ++c) {
        callers.emplace_back([&] {
            for (int repeat = 0; repeat < 500; ++repeat) {
                std::vector<int> seen(17, 0);
                parallel_for(seen.size(), 3, [&](std::size_t task, int thread) {
                    EXPECT_LT(thread, 3);
                    ++seen[task];
                });
                for (const int times : seen) sum += times;
            }
        });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(sum, 4 * 500 * 17);
}

TEST_F(Workers, NoTwoThreadsHaveTheSameNumber) {
    std::vector<std::atomic<int>> inside(4);
    parallel_for(400, 4, [&](std::size_t, int thread) {
        EXPECT_EQ(inside[static_cast<std::size_t>(thread)].fetch_add(1), 0);
        std::this_thread::yield();
        --inside[static_cast<std::size_t>(thread)];
    });
}

TEST_F(Workers, AfterAnExceptionNoTaskIsBegunAndTheNextLoopRuns) {
    for (int repeat = 0; repeat < 50; ++repeat) {
        std::atomic<int> runs{0};
        EXPECT_THROW(parallel_for(100000, 3,
                                  [&](std::size_t, int) {
                                      ++runs;
                                      throw std::runtime_error("task");
                                  }),
                     std::runtime_error);
        EXPECT_GE(runs, 1);
        EXPECT_LE(runs, 3);
        std::atomic<int> later{0};
        parallel_for(10, 3, [&](std::size_t, int) { ++later; });
        EXPECT_EQ(later, 10);
    }
}

TEST_F(Workers, ALoopInsideALoopStaysOnItsThread) {
    parallel_for(8, [](std::size_t) {
        EXPECT_TRUE(in_loop());
        EXPECT_EQ(threads_for(100), 1);
        const std::thread::id own = std::this_thread::get_id();
        parallel_for(5, 4, [&](std::size_t, int thread) {
            EXPECT_EQ(std::this_thread::get_id(), own);
            EXPECT_EQ(thread, 0);
        });
    });
    EXPECT_FALSE(in_loop());
}

TEST_F(Workers, WaitingIsPassive) {
    parallel_for(8, [](std::size_t) {});
    const std::clock_t before = std::clock();  // of all threads of the process
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 30);
}

#if defined(__unix__)
TEST_F(Workers, AForkHasWorkersOfItsOwn) {
    std::atomic<int> runs{0};
    parallel_for(8, [&](std::size_t) { ++runs; });
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);  // a hang ends the child with a signal
        std::latch both(2);
        parallel_for(2, [&](std::size_t) { both.arrive_and_wait(); });  // two threads, or a hang
        _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace cipherblas
