// How many threads some work is worth.
#pragma once
#include <cstddef>

#include "ring/threads.h"

namespace cipherblas::gemm {

// Threads for so many tasks that are `operations` word operations altogether: to start and join threads takes as long as
// tens of thousands of them, and far longer where other processes want the cores.
inline int threads_for_work(std::size_t tasks, std::size_t operations) {
    constexpr std::size_t kLeast = std::size_t{1} << 18;
    return operations < kLeast ? 1 : threads_for(tasks);
}

}  // namespace cipherblas::gemm
