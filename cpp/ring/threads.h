// The one thread knob, and the only place where parallel loops are started.
#pragma once
#include <cstddef>

#include "ring/workers.h"

namespace cipherblas {

// Number of threads that a parallel loop may use: what set_thread_count chose, else CIPHERBLAS_THREADS, else as many as
// the process may keep busy (ring/machine.h).
int thread_count();
// Throws std::invalid_argument unless 1 <= count <= 4096.
void set_thread_count(int count);

// Number of threads for so many tasks: one inside a parallel loop.
int threads_for(std::size_t tasks);

// The same for tasks that are `operations` word operations altogether: to start and join threads takes as long as tens of
// thousands of them, and far longer where other processes want the cores.
inline int threads_for_work(std::size_t tasks, std::size_t operations) {
    constexpr std::size_t kLeast = std::size_t{1} << 18;
    return operations < kLeast ? 1 : threads_for(tasks);
}

// Calls body(task, thread) for every task below `tasks`; thread < threads, so that the caller can prepare a workspace
// for each (the knob may turn meanwhile). The first exception is rethrown when all threads have stopped; tasks that were
// not begun are left out.
template <typename Body>
void parallel_for(std::size_t tasks, int threads, const Body& body) {
    if (threads <= 1 || tasks <= 1 || in_loop()) {
        for (std::size_t task = 0; task < tasks; ++task) {
            body(task, 0);
            if (asks) ask_if_due();
        }
        return;
    }
    const auto run = [](const void* context, std::size_t task, int thread) {
        (*static_cast<const Body*>(context))(task, thread);
    };
    run_loop(tasks, threads, run, &body);
}

// Calls body(task) for every task below `tasks`.
template <typename Body>
void parallel_for(std::size_t tasks, const Body& body) {
    parallel_for(tasks, threads_for(tasks), [&](std::size_t task, int) { body(task); });
}

// Calls body(row, offset, count) so that every row of n words is covered once; rows are cut into pieces (multiples of
// 512 words) only where there are fewer rows than threads. For kernels that treat words independently, with so many
// operations for each.
template <typename Body>
void parallel_rows(std::size_t rows, std::size_t n, std::size_t operations, const Body& body) {
    const std::size_t threads = static_cast<std::size_t>(threads_for_work(n, rows * n * operations));
    std::size_t pieces = rows == 0 || rows >= 2 * threads ? 1 : (2 * threads + rows - 1) / rows;
    if (pieces > n / 2048) pieces = n / 2048;
    if (pieces == 0) pieces = 1;
    const std::size_t step = pieces == 1 ? n : (n / pieces + 511) / 512 * 512;
    pieces = (n + step - 1) / step;
    parallel_for(rows * pieces, static_cast<int>(threads), [&](std::size_t task, int) {
        const std::size_t offset = task % pieces * step;
        body(task / pieces, offset, offset + step < n ? step : n - offset);
    });
}

}  // namespace cipherblas
