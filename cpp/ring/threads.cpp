#include "ring/threads.h"

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "ring/machine.h"

namespace cipherblas {
namespace {

constexpr int kMaxThreads = 4096;

int default_thread_count() {
    if (const char* text = std::getenv("CIPHERBLAS_THREADS")) {
        char* end = nullptr;
        const long value = std::strtol(text, &end, 10);
        if (end != text && *end == '\0' && value >= 1 && value <= kMaxThreads) return static_cast<int>(value);
    }
    return processors();
}

std::atomic<int>& knob() {
    static std::atomic<int> count{default_thread_count()};
    return count;
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
    if (in_loop()) return 1;
    const std::size_t threads = static_cast<std::size_t>(thread_count());
    return static_cast<int>(tasks < threads ? (tasks == 0 ? 1 : tasks) : threads);
}

}  // namespace cipherblas
