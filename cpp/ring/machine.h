// What this process may use of its machine: processors and memory, whoever limits them.
//
// Containers and service managers limit processes by control groups: the folders of a process are named by
// /proc/self/cgroup, and every folder from there up to the mount point limits it (Linux, cgroup-v2.rst, and
// cgroup-v1/memory.rst, scheduler/sched-bwc.rst for version 1).
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace cipherblas {

// `root` is put before every absolute path that is read, so that tests can show another machine.

// Processors' worth of time that the control groups grant (1.5: 150 ms of every 100 ms); nothing without a quota.
std::optional<double> cpu_quota(const std::string& root = "");
// Processors that this process may run on, at most as many as its quota keeps busy, rounded up: with a quota of 1.5 two
// threads get through half as much again as one. At least 1.
int processors(const std::string& root = "");

// Bytes of memory of the machine, or the least of the limits on this process; nothing where the system does not say.
std::optional<std::uint64_t> total_memory(const std::string& root = "");
// Bytes that this process may still take without swapping or exceeding a limit, what it uses now taken off. Pages of
// files that a control group can drop count as available.
std::optional<std::uint64_t> available_memory(const std::string& root = "");

}  // namespace cipherblas
