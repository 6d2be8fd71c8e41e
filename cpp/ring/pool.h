// A recycling pool of 64-byte aligned memory.
//
// Fresh pages cost about 0.1 ms per MiB at their first touch, so ciphertexts, keys and workspaces reuse blocks that
// were released before, as far as this does not raise the peak: before memory is mapped, idle blocks beyond what was in use
// together are given back. Blocks of 64 KiB and more lie in huge pages: those of 2 MiB and more in their own, others in
// pages that they share.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

namespace cipherblas {

// More memory than there is, or than can be addressed; says how much was asked for.
class OutOfMemory : public std::bad_alloc {
  public:
    explicit OutOfMemory(const std::string& wanted) : text_("out of memory: expected room for " + wanted) {}
    const char* what() const noexcept override { return text_.c_str(); }

  private:
    std::string text_;
};

// The bytes of an array of these lengths. The one place where lengths are multiplied before memory is taken: throws
// OutOfMemory where the product is beyond what can be addressed.
std::size_t bytes_of(const std::size_t* lengths, std::size_t dimensions, std::size_t item_bytes);

// Throws OutOfMemory where the process may not use so many bytes: the system may well promise them, and end the process
// when they are used. Every block is checked; this is for what takes many.
void check_room(std::size_t bytes);

// A block from the pool, returned to it by the destructor. The content is undefined.
class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(std::size_t bytes);  // throws OutOfMemory, also for more than the process may use
    Buffer(Buffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), capacity_(std::exchange(other.capacity_, 0)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(capacity_, other.capacity_);
        return *this;
    }
    ~Buffer();

    // As many words as the product of these counts.
    template <typename... Counts>
    static Buffer of_words(Counts... counts) {
        const std::size_t lengths[] = {static_cast<std::size_t>(counts)...};
        return Buffer(bytes_of(lengths, sizeof...(counts), sizeof(std::uint64_t)));
    }
    // What is written and read again and again: a huge page for itself if it takes a good part of one, because small pages
    // lie anywhere and crowd some sets of a cache.
    static Buffer workspace_of_words(std::size_t count);

    void* data() const { return data_; }
    std::uint64_t* words() const { return static_cast<std::uint64_t*>(data_); }
    std::size_t capacity() const { return capacity_; }

  private:
    void* data_ = nullptr;
    std::size_t capacity_ = 0;
};

// Bytes that the pool holds now, lent out and idle together.
std::size_t pool_bytes();
// Gives the idle blocks back to the system.
void trim_pool();

}  // namespace cipherblas
