#include "ring/pool.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "ring/aligned.h"

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace cipherblas {
namespace {

constexpr std::size_t kPage = 4096;

// Idle memory beyond this goes back to the system at once: a quarter of the machine, so that a large product does not
// return pages only to have them cleared and mapped again for its next block.
std::size_t max_idle_bytes() {
#if defined(__linux__)
    const long pages = sysconf(_SC_PHYS_PAGES);
    if (pages > 0) return static_cast<std::size_t>(pages) * kPage / 4;
#endif
    return std::size_t{1} << 30;
}

// Eight sizes per power of two: at most 12.5% of a block is unused, and few sizes make reuse likely.
std::size_t block_size(std::size_t bytes) {
    if (bytes <= 512) return 512;
    if (bytes > (std::size_t{1} << 62)) throw std::bad_alloc();
    std::size_t step = std::bit_floor(bytes) / 8;
    if (step < kAlignment) step = kAlignment;
    if (bytes >= kHugePage && step < kPage) step = kPage;
    return (bytes + step - 1) / step * step;
}

#if defined(__linux__)
void* system_allocate(std::size_t size) {
    if (size < kHugePage) return ::operator new(size, std::align_val_t{kAlignment}, std::nothrow);
    const std::size_t reserved = size + kHugePage;
    void* raw = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    char* const begin = static_cast<char*>(raw);
    const std::size_t head = (kHugePage - reinterpret_cast<std::uintptr_t>(raw) % kHugePage) % kHugePage;
    if (head > 0) munmap(begin, head);
    munmap(begin + head + size, reserved - head - size);
    madvise(begin + head, size, MADV_HUGEPAGE);
    return begin + head;
}

void system_release(void* data, std::size_t size) {
    if (size < kHugePage) {
        ::operator delete(data, std::align_val_t{kAlignment});
    } else {
        munmap(data, size);
    }
}
#else
void* system_allocate(std::size_t size) {
    return ::operator new(size, std::align_val_t{kAlignment}, std::nothrow);
}
void system_release(void* data, std::size_t) { ::operator delete(data, std::align_val_t{kAlignment}); }
#endif

class Pool {
  public:
    void* take(std::size_t size) {
        {
            const std::lock_guard<std::mutex> guard(lock_);
            const auto found = idle_.find(size);
            if (found != idle_.end() && !found->second.empty()) {
                void* const data = found->second.back();
                found->second.pop_back();
                idle_bytes_ -= size;
                return data;
            }
        }
        void* data = system_allocate(size);
        if (data == nullptr) {
            trim();
            data = system_allocate(size);
        }
        if (data == nullptr) throw std::bad_alloc();
        const std::lock_guard<std::mutex> guard(lock_);
        total_bytes_ += size;
        return data;
    }

    void give(void* data, std::size_t size) noexcept {
        {
            const std::lock_guard<std::mutex> guard(lock_);
            if (idle_bytes_ + size <= max_idle_bytes_) {
                try {
                    idle_[size].push_back(data);
                    idle_bytes_ += size;
                    return;
                } catch (...) {  // no memory for the list: release the block instead
                }
            }
            total_bytes_ -= size;
        }
        system_release(data, size);
    }

    void trim() {
        std::map<std::size_t, std::vector<void*>> blocks;
        {
            const std::lock_guard<std::mutex> guard(lock_);
            blocks.swap(idle_);
            total_bytes_ -= idle_bytes_;
            idle_bytes_ = 0;
        }
        for (const auto& [size, list] : blocks) {
            for (void* data : list) system_release(data, size);
        }
    }

    std::size_t total() {
        const std::lock_guard<std::mutex> guard(lock_);
        return total_bytes_;
    }

  private:
    std::mutex lock_;
    std::map<std::size_t, std::vector<void*>> idle_;
    const std::size_t max_idle_bytes_ = max_idle_bytes();
    std::size_t idle_bytes_ = 0;
    std::size_t total_bytes_ = 0;
};

// Never destroyed: arrays of the interpreter may outlive every static object.
Pool& pool() {
    static Pool* const instance = new Pool;
    return *instance;
}

}  // namespace

Buffer::Buffer(std::size_t bytes) {
    const std::size_t size = block_size(bytes);
    data_ = pool().take(size);
    capacity_ = size;
}

Buffer Buffer::workspace_of_words(std::size_t count) {
    const std::size_t bytes = count * sizeof(std::uint64_t);
    return Buffer(bytes >= kHugePage / 4 ? std::max(bytes, kHugePage) : bytes);
}

Buffer::~Buffer() {
    if (data_ != nullptr) pool().give(data_, capacity_);
}

std::size_t pool_bytes() { return pool().total(); }
void trim_pool() { pool().trim(); }

}  // namespace cipherblas
