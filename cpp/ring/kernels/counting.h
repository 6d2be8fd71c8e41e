// Tables that count what they are called for: the kernels of the instruction set in use, behind functions that add up. For
// tests, which compare these counts with the ones that programs are planned by.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cipherblas {

// Words that each kind of work was done on since counting began, by name; see counting.cpp and gemm/counting.cpp.
using KernelCounts = std::vector<std::pair<std::string, std::uint64_t>>;

// Begins to count from zero, or ends counting. The kernels of every later call are those of the counting tables, or the plain
// ones: while it is off, nothing is paid for it.
void count_kernels(bool on);
KernelCounts kernel_counts();

// Of `count_kernels`.
struct Kernels;
const Kernels* counting_table(const Kernels& inner);  // counts, and then calls that one
void clear_kernel_counts();

}  // namespace cipherblas
