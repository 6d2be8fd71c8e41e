// 64-byte aligned storage.
#pragma once
#include <cstddef>
#include <new>
#include <vector>

namespace cipherblas {

inline constexpr std::size_t kAlignment = 64;

template <typename T>
struct AlignedAllocator {
    using value_type = T;
    AlignedAllocator() = default;
    template <typename U>
    AlignedAllocator(const AlignedAllocator<U>&) {}
    T* allocate(std::size_t count) {
        return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t{kAlignment}));
    }
    void deallocate(T* p, std::size_t) { ::operator delete(p, std::align_val_t{kAlignment}); }
    template <typename U>
    bool operator==(const AlignedAllocator<U>&) const {
        return true;
    }
};

template <typename T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace cipherblas
