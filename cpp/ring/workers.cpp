#include "ring/workers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

#include "ring/machine.h"

namespace cipherblas {
namespace {

// About what it takes the system to wake a thread up: shorter waits are cheaper in a loop, longer ones asleep.
constexpr std::chrono::microseconds kSpin{50};

thread_local bool inside = false;

struct Question {
    Ask ask;
    std::chrono::steady_clock::time_point due;
};

Question& question() {
    thread_local Question own;
    return own;
}

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

// Whether the condition came true within the time to spin.
template <typename Condition>
bool spin_until(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + kSpin;
    do {
        for (int i = 0; i < 16; ++i) {
            if (condition()) return true;
            relax();
        }
    } while (std::chrono::steady_clock::now() < end);
    return condition();
}

// One parallel loop, on the stack of its caller, who removes it from the list before it ends.
struct Loop {
    Loop(std::size_t task_count, int most, Task run_task, const void* run_body)
        : run(run_task), body(run_body), tasks(task_count), threads(most) {}

    const Task run;
    const void* const body;
    const std::size_t tasks;
    const int threads;
    std::atomic<std::size_t> next{0};
    std::atomic<int> running{0};  // workers inside; changed under the lock of the pool
    int joined = 1;               // numbers given away; the caller has 0
    std::exception_ptr failure;   // under the lock of the pool

    bool open() const { return joined < threads && next.load(std::memory_order_relaxed) < tasks; }
};

class Workers {
  public:
    void run(Loop& loop) {
        std::list<Loop*>::iterator place;
        {
            const std::lock_guard<std::mutex> guard(lock_);
            start_threads(loop.threads - 1);
            place = loops_.insert(loops_.end(), &loop);
            posted_.fetch_add(1, std::memory_order_release);
            const std::size_t wanted = std::min(loop.tasks, static_cast<std::size_t>(loop.threads)) - 1;
            for (std::size_t i = std::min(wanted, sleeping_workers_); i > 0; --i) wake_.notify_one();
        }
        work(loop, 0);
        std::unique_lock<std::mutex> guard(lock_);
        loops_.erase(place);
        const auto left = [&] { return loop.running.load(std::memory_order_acquire) == 0; };
        if (left()) return;
        guard.unlock();
        const bool seen = may_spin_ && spin_until(left);
        guard.lock();  // the worker that left last may still hold the lock: it must not find the loop gone
        if (!seen) {
            ++sleeping_callers_;
            done_.wait(guard, left);
            --sleeping_callers_;
        }
    }

  private:
    // Takes tasks until there are none, or one has failed.
    void work(Loop& loop, int thread) {
        inside = true;
        try {
            for (;;) {
                const std::size_t task = loop.next.fetch_add(1, std::memory_order_relaxed);
                if (task >= loop.tasks) break;
                loop.run(loop.body, task, thread);
                if (asks) ask_if_due();
            }
        } catch (...) {
            loop.next.store(loop.tasks, std::memory_order_relaxed);
            const std::lock_guard<std::mutex> guard(lock_);
            if (!loop.failure) loop.failure = std::current_exception();
        }
        inside = false;
    }

    // Called under the lock. Where the system gives no more threads, fewer must do.
    void start_threads(int count) {
        const int before = threads_;
        try {
            for (; threads_ < count; ++threads_) std::thread([this] { serve(); }).detach();
        } catch (const std::system_error&) {
        }
        if (threads_ != before) may_spin_ = threads_ < processors();
    }

    [[noreturn]] void serve() {
        std::uint64_t seen = 0;
        std::unique_lock<std::mutex> guard(lock_);
        for (;;) {
            const auto found =
                std::find_if(loops_.begin(), loops_.end(), [](const Loop* loop) { return loop->open(); });
            if (found != loops_.end()) {
                Loop& loop = **found;
                const int thread = loop.joined++;
                loop.running.fetch_add(1, std::memory_order_relaxed);
                guard.unlock();
                work(loop, thread);
                guard.lock();
                // The last touch of the loop: its caller may go on as soon as nobody holds the lock.
                if (loop.running.fetch_sub(1, std::memory_order_release) == 1 && sleeping_callers_ > 0) {
                    done_.notify_all();
                }
                continue;
            }
            seen = posted_.load(std::memory_order_relaxed);
            const auto posted = [&] { return posted_.load(std::memory_order_acquire) != seen; };
            guard.unlock();
            const bool soon = may_spin_ && spin_until(posted);
            guard.lock();
            if (!soon) {
                ++sleeping_workers_;
                wake_.wait(guard, posted);
                --sleeping_workers_;
            }
        }
    }

    std::mutex lock_;
    std::condition_variable wake_, done_;
    std::list<Loop*> loops_;
    std::atomic<std::uint64_t> posted_{0};  // loops so far; changed under the lock
    std::atomic<bool> may_spin_{false};     // there are processors enough for all threads
    std::size_t sleeping_workers_ = 0, sleeping_callers_ = 0;
    int threads_ = 0;
};

// The threads of a process do not exist in its forks: a fork starts its own, and leaves the old object, whose lock
// somebody may have held, alone.
std::atomic<Workers*> instance{nullptr};

Workers& workers() {
#if defined(__unix__) || defined(__APPLE__)
    static const int registered = pthread_atfork(nullptr, nullptr, [] { instance = nullptr; });
    (void)registered;
#endif
    Workers* found = instance.load(std::memory_order_acquire);
    if (found == nullptr) {
        auto* const made = new Workers;  // never destroyed: its threads wait until the process ends
        if (instance.compare_exchange_strong(found, made)) return *made;
        delete made;
    }
    return *found;
}

}  // namespace

bool in_loop() { return inside; }

constinit thread_local bool asks = false;

void set_ask(Ask ask) {
    question() = {std::move(ask), {}};
    asks = static_cast<bool>(question().ask);
}

void ask_if_due() {
    Question& own = question();
    const auto now = std::chrono::steady_clock::now();
    if (now < own.due) return;
    own.due = now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                        std::chrono::duration<double>(kAskSeconds));
    asks = false;  // what is asked may start loops itself
    try {
        own.ask();
    } catch (...) {
        asks = true;
        throw;
    }
    asks = true;
}

void run_loop(std::size_t tasks, int threads, Task run, const void* body) {
    Loop loop(tasks, threads, run, body);
    workers().run(loop);
    if (loop.failure) std::rethrow_exception(loop.failure);
}

}  // namespace cipherblas
