#include "ring/pool.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "ring/aligned.h"
#include "ring/machine.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

// Under the address sanitizer, and under valgrind in a build for it, what a block has beyond the bytes that were asked for,
// and all of an idle one, must not be touched: without this they would see neither, since the memory is the pool's. For
// valgrind a block that is lent again holds nothing that may be read.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define FORBID_MEMORY ASAN_POISON_MEMORY_REGION
#define LEND_MEMORY ASAN_UNPOISON_MEMORY_REGION
#elif defined(CIPHERBLAS_VALGRIND)
#include <valgrind/memcheck.h>
#define FORBID_MEMORY(data, size) static_cast<void>(VALGRIND_MAKE_MEM_NOACCESS(data, size))
#define LEND_MEMORY(data, size) static_cast<void>(VALGRIND_MAKE_MEM_UNDEFINED(data, size))
#else
#define FORBID_MEMORY(data, size) static_cast<void>(0)
#define LEND_MEMORY(data, size) static_cast<void>(0)
#endif

namespace cipherblas {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLeastPaged = 16 * kPage;  // smaller blocks are those of the system's allocator

// Idle memory beyond this goes back to the system at once: a quarter of what the process may use, so that a large
// product does not return pages only to have them cleared and mapped again for its next block.
std::size_t max_idle_bytes() {
    return static_cast<std::size_t>(total_memory().value_or(std::uint64_t{4} << 30) / 4);
}

// By so much idle blocks may make the pool larger than the blocks that were ever in use together: where levels change, so do
// the sizes of blocks, and pages that go back to the system are cleared when they return (a fifth of a bootstrap at N = 2^15).
constexpr std::size_t kSpareBytes = std::size_t{32} << 20;
constexpr std::size_t kSpareShare = 16;

std::size_t spare_bytes(std::size_t most_lent) { return std::max(kSpareBytes, most_lent / kSpareShare); }

// Eight sizes per power of two: at most 12.5% of a block is unused, and few sizes make reuse likely.
std::size_t block_size(std::size_t bytes) {
    if (bytes <= 512) return 512;
    if (bytes > (std::size_t{1} << 62)) throw OutOfMemory(std::to_string(bytes) + " bytes");
    std::size_t step = std::bit_floor(bytes) / 8;
    if (step < kAlignment) step = kAlignment;
    if (bytes >= kHugePage && step < kPage) step = kPage;
    return (bytes + step - 1) / step * step;
}

#if defined(__linux__)
constexpr int kPopulate = 23;  // MADV_POPULATE_WRITE, from Linux 5.14 on; others refuse it

// Memory of a multiple of a page, aligned to a huge page and advised to lie in such; null where there is none.
char* map_huge(std::size_t size) {
    const std::size_t reserved = size + kHugePage;
    void* raw = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    char* const begin = static_cast<char*>(raw);
    const std::size_t head = (kHugePage - reinterpret_cast<std::uintptr_t>(raw) % kHugePage) % kHugePage;
    if (head > 0) munmap(begin, head);
    munmap(begin + head + size, reserved - head - size);
    madvise(begin + head, size, MADV_HUGEPAGE);
    // What is left of the last huge page is mapped at once: one by one, its pages take several times as long.
    const std::size_t whole = size / kHugePage * kHugePage;
    if (whole < size) madvise(begin + head + whole, size - whole, kPopulate);
    return begin + head;
}

// Moves a huge page to another one, which is mapped and untouched; where it fails that one may be unmapped.
bool move_page(char* from, char* to) {
    return mremap(from, kHugePage, kHugePage, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
}

// Blocks that are smaller than a huge page, of all sizes one after another in regions of huge pages. Pages of a block that
// is released go back to the system; its addresses wait for another block of its size, until no block of the region is lent.
class Regions {
  public:
    void* allocate(std::size_t size) {
        const std::lock_guard<std::mutex> guard(lock_);
        char* data = nullptr;
        std::vector<char*>& waiting = waiting_[size];
        if (!waiting.empty()) {
            data = waiting.back();
            waiting.pop_back();
        } else {
            if (static_cast<std::size_t>(end_ - next_) < size + kShift && !extend()) return nullptr;
            data = next_;
            next_ += size + kShift;
        }
        ++region_of(data)->second.lent;
        return data;
    }

    void release(char* data, std::size_t size) noexcept {
        const std::lock_guard<std::mutex> guard(lock_);
        const auto region = region_of(data);
        char* const begin = region->first;
        const std::size_t length = region->second.length;
        --region->second.lent;
        const auto place = reinterpret_cast<std::uintptr_t>(data);
        const std::size_t before = (kPage - place % kPage) % kPage;  // pages that it shares with others stay
        madvise(data + before, (size - before) / kPage * kPage, MADV_DONTNEED);
        try {
            waiting_[size].push_back(data);
        } catch (...) {  // no memory for the list: the addresses are of use again when the region is
        }
        if (region->second.lent > 0 || end_ == begin + length) return;
        for (auto& [_, waiting] : waiting_) {
            std::erase_if(waiting, [&](char* one) { return begin <= one && one < begin + length; });
        }
        LEND_MEMORY(begin, length);
        munmap(begin, length);
        regions_.erase(region);
        bytes_ -= length;
    }

  private:
    struct Region {
        std::size_t length, lent;
    };
    using ByBegin = std::map<char*, Region>;

    ByBegin::iterator region_of(char* data) { return std::prev(regions_.upper_bound(data)); }

    // Another region, as large as all of them together, within bounds; a smaller one where there are not so many addresses.
    bool extend() {
        for (std::size_t length = std::clamp(std::bit_floor(bytes_), kHugePage, kMostBytes);
             length >= kHugePage; length /= 2) {
            char* const begin = map_huge(length);
            if (begin == nullptr) continue;
            regions_[begin] = {length, 0};
            bytes_ += length;
            next_ = begin;
            end_ = begin + length;
            return true;
        }
        return false;
    }

    static constexpr std::size_t kMostBytes = 32 * kHugePage;  // of a region
    // Between blocks: those of a size, whose entries are often read side by side, begin in other sets of every cache.
    static constexpr std::size_t kShift = kPage + 5 * kAlignment;

    std::mutex lock_;
    ByBegin regions_;
    std::map<std::size_t, std::vector<char*>> waiting_;
    std::size_t bytes_ = 0;  // of all regions
    char* next_ = nullptr;   // what is left of the last one
    char* end_ = nullptr;
};

// Never destroyed, as the pool.
Regions& regions() {
    static Regions* const instance = new Regions;
    return *instance;
}

void* system_allocate(std::size_t size) {
    if (size < kLeastPaged) return ::operator new(size, std::align_val_t{kAlignment}, std::nothrow);
    return size < kHugePage ? regions().allocate(size) : map_huge(size);
}

void system_release(void* data, std::size_t size) {
    if (kLeastPaged <= size && size < kHugePage) return regions().release(static_cast<char*>(data), size);
    LEND_MEMORY(data, size);
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

using Blocks = std::map<std::size_t, std::vector<void*>>;  // by size

void release(const Blocks& blocks) {
    for (const auto& [size, list] : blocks) {
        for (void* data : list) system_release(data, size);
    }
}

#if defined(__linux__)
// The largest size of a block that is not more than so many bytes, a huge page at least.
std::size_t size_within(std::size_t bytes) {
    const std::size_t step = std::max(std::bit_floor(bytes) / 8, kPage);
    return bytes / step * step;
}

// What is left of a mapping becomes a block, but for its end; all of it goes back to the system where it is too small.
void keep(char* data, std::size_t length, Blocks& left) {
    const std::size_t size = length < kHugePage ? 0 : size_within(length);
    if (size < length) munmap(data + size, length - size);
    if (size == 0) return;
    FORBID_MEMORY(data, size);
    try {
        left[size].push_back(data);
    } catch (...) {  // no memory for the list
        system_release(data, size);
    }
}
#endif

// A new block, for which others are released: it takes over their huge pages, which are not cleared then. Null where there is
// no memory. What is left of a block whose pages it did not need all goes to `left`, a block again.
void* replace(const Blocks& blocks, std::size_t size, Blocks& left) {
#if defined(__linux__)
    char* const begin = size >= kHugePage && !blocks.empty() ? map_huge(size) : nullptr;
    if (begin != nullptr) {
        std::size_t room = size / kHugePage, taken = 0;
        bool moves = true;
        for (auto entry = blocks.rbegin(); entry != blocks.rend(); ++entry) {
            const std::size_t length = entry->first;
            for (void* block : entry->second) {
                char* data = static_cast<char*>(block);
                char* const end = data + length;
                // Page by page: those that were moved before may be mappings of their own.
                for (std::size_t pages = length / kHugePage; moves && pages > 0 && room > 0; --pages) {
                    if (data == block) LEND_MEMORY(data, length);
                    moves = move_page(data, begin + taken);
                    if (!moves) break;
                    data += kHugePage;
                    taken += kHugePage;
                    --room;
                }
                if (data == block) {
                    system_release(data, length);
                } else if (data < end) {
                    keep(data, static_cast<std::size_t>(end - data), left);
                }
            }
        }
        if (moves) return begin;
        munmap(begin, taken);  // not the page to which none was moved: it may be somebody else's by now
        munmap(begin + taken + kHugePage, size - taken - kHugePage);
        return system_allocate(size);
    }
#endif
    release(blocks);
    return system_allocate(size);
}

class Pool {
  public:
    // A block of that size, or of the one that `size` is set to then.
    void* take(std::size_t& size) {
        check_room(size);
        Blocks surplus;
        {
            const std::lock_guard<std::mutex> guard(lock_);
            lent_bytes_ += size;
            most_lent_bytes_ = std::max(most_lent_bytes_, lent_bytes_);
            // New memory: what idles must not make the pool larger than what was in use together, by much.
            const std::size_t most_idle = most_lent_bytes_ + spare_bytes(most_lent_bytes_) - lent_bytes_;
            auto found = idle_.lower_bound(size);
            while (found != idle_.end() && found->second.empty()) ++found;
            if (found != idle_.end() &&
                (found->first == size || (idle_bytes_ > most_idle && found->first <= size + size / 4) ||
                 may_waste(size, found->first))) {
                void* const data = found->second.back();
                if (found->first > size) note_waste(data, found->first - size);
                found->second.pop_back();
                idle_bytes_ -= found->first;
                lent_bytes_ += found->first - size;
                size = found->first;
                return data;
            }
            surplus = idle_beyond(most_idle);
        }
        Blocks left;
        void* data = replace(surplus, size, left);
        keep_idle(left);
        if (data == nullptr) {
            trim();
            data = system_allocate(size);
        }
        if (data == nullptr) {
            const std::lock_guard<std::mutex> guard(lock_);
            lent_bytes_ -= size;
            throw OutOfMemory(std::to_string(size) + " bytes");
        }
        return data;
    }

    void give(void* data, std::size_t size) noexcept {
        FORBID_MEMORY(data, size);
        {
            const std::lock_guard<std::mutex> guard(lock_);
            lent_bytes_ -= size;
            forget_waste(data);
            if (idle_bytes_ + size <= max_idle_bytes_) {
                try {
                    idle_[size].push_back(data);
                    idle_bytes_ += size;
                    return;
                } catch (...) {  // no memory for the list: release the block instead
                }
            }
        }
        system_release(data, size);
    }

    void trim() {
        Blocks blocks;
        {
            const std::lock_guard<std::mutex> guard(lock_);
            blocks = idle_beyond(0);
        }
        release(blocks);
    }

    std::size_t total() {
        const std::lock_guard<std::mutex> guard(lock_);
        return lent_bytes_ + idle_bytes_;
    }

  private:
    void keep_idle(const Blocks& blocks) {
        const std::lock_guard<std::mutex> guard(lock_);
        for (const auto& [size, list] : blocks) {
            for (void* data : list) {
                try {
                    idle_[size].push_back(data);
                    idle_bytes_ += size;
                } catch (...) {  // no memory for the list
                    system_release(data, size);
                }
            }
        }
    }

    // Whether a block larger than is asked for may take the place of a new one, whose pages the system would clear: what
    // such blocks have too much must stay below a half of what may idle beyond the most that was in use together.
    bool may_waste(std::size_t size, std::size_t found) const {
        return size >= kHugePage && found <= 2 * size &&
               wasted_bytes_ + (found - size) <= spare_bytes(most_lent_bytes_) / 2;
    }
    void note_waste(void* data, std::size_t bytes) {
        try {
            wasted_.emplace(data, bytes);
            wasted_bytes_ += bytes;
        } catch (...) {  // no memory for the entry: it is not counted
        }
    }
    void forget_waste(void* data) noexcept {
        const auto entry = wasted_.find(data);
        if (entry == wasted_.end()) return;
        wasted_bytes_ -= entry->second;
        wasted_.erase(entry);
    }

    // Takes the largest idle blocks out until at most so many bytes idle. Called under the lock.
    Blocks idle_beyond(std::size_t bytes) {
        Blocks taken;
        while (idle_bytes_ > bytes) {
            const auto largest = std::prev(idle_.end());
            std::vector<void*>& list = largest->second;
            while (idle_bytes_ > bytes && !list.empty()) {
                taken[largest->first].push_back(list.back());
                list.pop_back();
                idle_bytes_ -= largest->first;
            }
            if (list.empty()) idle_.erase(largest);
        }
        return taken;
    }

    std::mutex lock_;
    Blocks idle_;
    std::map<void*, std::size_t> wasted_;  // what lent blocks have beyond their size
    std::size_t wasted_bytes_ = 0;
    const std::size_t max_idle_bytes_ = max_idle_bytes();
    std::size_t idle_bytes_ = 0;
    std::size_t lent_bytes_ = 0, most_lent_bytes_ = 0;
};

// Never destroyed: arrays of the interpreter may outlive every static object.
Pool& pool() {
    static Pool* const instance = new Pool;
    return *instance;
}

}  // namespace

std::size_t bytes_of(const std::size_t* lengths, std::size_t dimensions, std::size_t item_bytes) {
    std::size_t bytes = item_bytes;
    bool fits = true;
    for (std::size_t i = 0; i < dimensions; ++i) {
        if (lengths[i] == 0) return 0;
        fits = !__builtin_mul_overflow(bytes, lengths[i], &bytes) && fits;
    }
    if (fits && bytes <= static_cast<std::size_t>(PTRDIFF_MAX)) return bytes;
    std::string product;
    for (std::size_t i = 0; i < dimensions; ++i) product += std::to_string(lengths[i]) + " x ";
    throw OutOfMemory(product + std::to_string(item_bytes) + " bytes");
}

void check_room(std::size_t bytes) {
    static const std::optional<std::uint64_t> total = total_memory();
    if (total && bytes > *total) {
        throw OutOfMemory(std::to_string(bytes) + " bytes, got " + std::to_string(*total) + " in all");
    }
}

Buffer::Buffer(std::size_t bytes) {
    std::size_t size = block_size(bytes);
    data_ = pool().take(size);
    capacity_ = size;
    LEND_MEMORY(data_, bytes);
    FORBID_MEMORY(static_cast<char*>(data_) + bytes, size - bytes);
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
