#include "ring/threads.h"

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace cipherblas {
namespace {

constexpr int kMaxThreads = 4096;

int default_thread_count() {
    if (const char* text = std::getenv("CIPHERBLAS_THREADS")) {
        char* end = nullptr;
        const long value = std::strtol(text, &end, 10);
        if (end != text && *end == '\0' && value >= 1 && value <= kMaxThreads) return static_cast<int>(value);
    }
#ifdef _OPENMP
    return omp_get_num_procs();
#else
    return 1;
#endif
}

std::atomic<int>& knob() {
    static std::atomic<int> count{default_thread_count()};
    return count;
}

// The OpenMP threads of a process do not exist in its forks, where a parallel loop would wait for them for ever.
std::atomic<bool> forked_without_threads{false};

void watch_forks() {
#if defined(__unix__) || defined(__APPLE__)
    static const int registered = pthread_atfork(nullptr, nullptr, [] { forked_without_threads = true; });
    (void)registered;
#endif
}

}  // namespace

int thread_count() { return knob().load(std::memory_order_relaxed); }

void set_thread_count(int count) {
    if (count < 1 || count > kMaxThreads) {
        throw std::invalid_argument("threads: expected 1 to " + std::to_string(kMaxThreads) + ", got " +
                                    std::to_string(count));
    }
    knob().store(count, std::memory_order_relaxed);
}

int threads_for(std::size_t tasks) {
#ifdef _OPENMP
    if (omp_in_parallel() || forked_without_threads) return 1;
    const std::size_t threads = static_cast<std::size_t>(thread_count());
    const int used = static_cast<int>(tasks < threads ? (tasks == 0 ? 1 : tasks) : threads);
    if (used > 1) watch_forks();
    return used;
#else
    (void)tasks;
    return 1;
#endif
}

}  // namespace cipherblas
