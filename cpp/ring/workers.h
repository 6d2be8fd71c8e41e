// Threads that wait for parallel loops, and the loops that they share with the threads that start them.
//
// A loop is never late because of a thread that does not run: the caller takes tasks itself from the first moment on, a
// worker joins when it comes, and only workers that have joined are waited for. Who waits spins shortly and then sleeps, so
// that a busy core, or a quota of processor time, is not used up by waiting.
#pragma once
#include <cstddef>
#include <functional>

namespace cipherblas {

// Whom the calling thread asks between tasks of the loops that it starts, on whatever thread count, whether to go on:
// at most once every kAskSeconds. What `ask` throws ends the loop, as an exception of a task does.
using Ask = std::function<void()>;
inline constexpr double kAskSeconds = 0.1;

// Sets whom this thread asks from now on; an empty function asks nobody. Not from within a loop.
void set_ask(Ask ask);

// Whether this thread asks, and the question itself, if it is time.
extern constinit thread_local bool asks;
void ask_if_due();

using Task = void (*)(const void* body, std::size_t task, int thread);

// Whether the calling thread is inside a loop.
bool in_loop();

// Calls run(body, task, thread) once for every task below `tasks`, on at most `threads` threads, of which the caller is
// number 0. Loops may be started by several threads at once; the workers serve them in turn. Not from within a loop.
// After an exception no further task is begun; the first one is rethrown when all threads have left the loop.
void run_loop(std::size_t tasks, int threads, Task run, const void* body);

}  // namespace cipherblas
