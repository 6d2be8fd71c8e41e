#include "ring/machine.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <sys/resource.h>
#include <unistd.h>
#endif

namespace cipherblas {
namespace {

using Bytes = std::uint64_t;

constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();
constexpr Bytes kNoLimit =
    Bytes{1} << 62;  // version 1 writes "none" as the largest multiple of a page below 2^63

// The first word of a file as a number; nothing where there is none ("max", no file).
template <typename Number>
std::optional<Number> number_in(const std::string& path) {
    std::ifstream file(path);
    Number value{};
    if (file >> value) return value;
    return std::nullopt;
}

// The number after a name at the start of a line, as in /proc/meminfo and memory.stat.
std::optional<Bytes> entry_in(const std::string& path, const std::string& name) {
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string word;
        Bytes value = 0;
        if (words >> word && word == name && words >> value) return value;
    }
    return std::nullopt;
}

bool lists(const std::string& commas, const std::string& wanted) {
    std::istringstream words(commas);
    for (std::string word; std::getline(words, word, ',');) {
        if (word == wanted) return true;
    }
    return false;
}

// The path of this process in the hierarchy of a controller of version 1, or in that of version 2 ("").
std::optional<std::string> group_of(const std::string& root, const std::string& controller) {
    std::ifstream file(root + "/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {  // number:controllers:path
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        if (controller.empty() ? controllers.empty() : lists(controllers, controller)) {
            return line.substr(second + 1);
        }
    }
    return std::nullopt;
}

// Where a hierarchy is mounted, and which of its folders that is.
struct Mount {
    std::string folder, point;
};

// Octal escapes of blanks in paths of /proc/self/mountinfo.
std::string unescaped(const std::string& text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto octal = [&](std::size_t at) {
            return at < text.size() && text[at] >= '0' && text[at] <= '7';
        };
        if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
            result +=
                static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
            i += 3;
        } else {
            result += text[i];
        }
    }
    return result;
}

std::optional<Mount> mount_of(const std::string& root, const std::string& controller) {
    std::ifstream file(root + "/proc/self/mountinfo");
    std::optional<Mount> found;
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string skipped, folder, point, word, type, source, options;
        words >> skipped >> skipped >> skipped >> folder >> point;
        while (words >> word && word != "-") {
        }
        words >> type >> source >> options;
        const bool wanted =
            controller.empty() ? type == "cgroup2" : type == "cgroup" && lists(options, controller);
        if (wanted)
            found = Mount{unescaped(folder), unescaped(point)};  // a later mount covers an earlier one
    }
    return found;
}

// The folders whose limits hold for this process: its own and those above it, as far as they are mounted here.
std::vector<std::string> folders_of(const std::string& root, const std::string& controller) {
    const std::optional<std::string> group = group_of(root, controller);
    const std::optional<Mount> mount = group ? mount_of(root, controller) : std::nullopt;
    if (!mount) return {};
    std::string inner = *group;
    if (mount->folder != "/") {  // a container sees its own folder as the mount point
        const std::string& top = mount->folder;
        const bool below = inner.compare(0, top.size(), top) == 0 &&
                           (inner.size() == top.size() || inner[top.size()] == '/');
        inner = below ? inner.substr(top.size()) : "";
    }
    if (inner.find("/..") != std::string::npos) inner.clear();  // outside of what this namespace sees
    while (!inner.empty() && inner.back() == '/') inner.pop_back();
    std::vector<std::string> folders;
    for (; !inner.empty(); inner.resize(inner.rfind('/'))) folders.push_back(root + mount->point + inner);
    folders.push_back(root + mount->point);
    return folders;
}

struct MemoryLimit {
    Bytes limit, used;  // `used`: what cannot be dropped
};

// The limits on memory of both versions; a machine may have both.
std::vector<MemoryLimit> memory_limits(const std::string& root) {
    std::vector<MemoryLimit> limits;
    const auto add = [&](const std::string& folder, const char* limit_file, const char* usage_file,
                         const char* droppable) {
        const std::optional<Bytes> limit = number_in<Bytes>(folder + limit_file);
        if (!limit || *limit >= kNoLimit) return;
        const Bytes usage = number_in<Bytes>(folder + usage_file).value_or(0);
        const Bytes dropped = entry_in(folder + "/memory.stat", droppable).value_or(0);
        limits.push_back({*limit, usage - std::min(usage, dropped)});
    };
    for (const std::string& folder : folders_of(root, "")) {
        add(folder, "/memory.max", "/memory.current", "inactive_file");
        add(folder, "/memory.high", "/memory.current", "inactive_file");
    }
    for (const std::string& folder : folders_of(root, "memory")) {
        add(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file");
    }
#if defined(__unix__) || defined(__APPLE__)
    // Pages: of the address space (size), and of what is private and writable (data).
    Bytes size = 0, data = 0, skipped = 0;
    std::ifstream statm(root + "/proc/self/statm");
    statm >> size >> skipped >> skipped >> skipped >> skipped >> data;
    const auto page = static_cast<Bytes>(std::max(sysconf(_SC_PAGESIZE), 1L));
    const auto add_resource = [&](auto resource, Bytes pages) {
        rlimit found{};
        if (getrlimit(resource, &found) != 0 || found.rlim_cur == RLIM_INFINITY) return;
        limits.push_back({found.rlim_cur, pages * page});
    };
    add_resource(RLIMIT_AS, size);
    add_resource(RLIMIT_DATA, data);
#endif
    return limits;
}

std::optional<Bytes> least(std::optional<Bytes> machine, const std::vector<Bytes>& limits) {
    const Bytes found =
        std::min(machine.value_or(kUnlimited),
                 limits.empty() ? kUnlimited : *std::min_element(limits.begin(), limits.end()));
    return found == kUnlimited ? std::nullopt : std::optional<Bytes>(found);
}

std::optional<Bytes> meminfo(const std::string& root, const char* name) {
    const std::optional<Bytes> kibibytes = entry_in(root + "/proc/meminfo", name);
    return kibibytes ? std::optional<Bytes>(*kibibytes * 1024) : std::nullopt;
}

int affinity() {
#if defined(__linux__)
    for (int cpus = 1024; cpus <= (1 << 20); cpus *= 2) {  // the mask must be as large as that of the kernel
        cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(cpus));
        if (set == nullptr) break;
        const std::size_t size = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
        const int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0) return count;
    }
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

std::optional<double> cpu_quota(const std::string& root) {
    std::optional<double> least_share;
    const auto add = [&](std::optional<double> quota, std::optional<double> period) {
        if (!quota || !period || *quota <= 0 || *period <= 0) return;  // -1 and "max": none
        const double share = *quota / *period;
        least_share = least_share ? std::min(*least_share, share) : share;
    };
    for (const std::string& folder : folders_of(root, "")) {
        std::ifstream file(folder + "/cpu.max");
        double quota = 0, period = 0;
        if (file >> quota >> period) add(quota, period);
    }
    for (const std::string& folder : folders_of(root, "cpu")) {
        add(number_in<double>(folder + "/cpu.cfs_quota_us"),
            number_in<double>(folder + "/cpu.cfs_period_us"));
    }
    return least_share;
}

int processors(const std::string& root) {
    const int usable = affinity();
    const std::optional<double> quota = cpu_quota(root);
    if (!quota || *quota >= usable) return usable;
    return std::max(1, static_cast<int>(std::ceil(*quota)));
}

std::optional<Bytes> total_memory(const std::string& root) {
    std::vector<Bytes> limits;
    for (const MemoryLimit& found : memory_limits(root)) limits.push_back(found.limit);
    return least(meminfo(root, "MemTotal:"), limits);
}

std::optional<Bytes> available_memory(const std::string& root) {
    std::vector<Bytes> left;
    for (const MemoryLimit& found : memory_limits(root)) {
        left.push_back(found.limit - std::min(found.limit, found.used));
    }
    return least(meminfo(root, "MemAvailable:"), left);
}

}  // namespace cipherblas
