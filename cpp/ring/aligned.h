// 64-byte aligned storage; large blocks ask for huge pages.
#pragma once
#include <cstddef>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace cipherblas {

inline constexpr std::size_t kAlignment = 64;
inline constexpr std::size_t kHugePage = std::size_t{1} << 21;

template <typename T>
struct AlignedAllocator {
    using value_type = T;
    AlignedAllocator() = default;
    template <typename U>
    AlignedAllocator(const AlignedAllocator<U>&) {}
    T* allocate(std::size_t count) {
        const std::size_t bytes = count * sizeof(T);
        void* const block = ::operator new(bytes, alignment(bytes));
#if defined(__linux__)
        if (bytes >= kHugePage) madvise(block, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
        return static_cast<T*>(block);
    }
    void deallocate(T* p, std::size_t count) { ::operator delete(p, alignment(count * sizeof(T))); }
    static std::align_val_t alignment(std::size_t bytes) {
        return std::align_val_t{bytes >= kHugePage ? kHugePage : kAlignment};
    }
    template <typename U>
    bool operator==(const AlignedAllocator<U>&) const {
        return true;
    }
};

template <typename T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace cipherblas
