// Which automorphisms a ciphertext matrix transposition applies to which row, and by which keys.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cipherblas {

// Keys against switches for d rows, the exponents being v = +-5^e mod 2d, e < d/2:
//   fast     one key for each v: d - 1 keys, d - 1 switches
//   light    two digits of e: about 2 sqrt(d) keys, less than 2d switches
//   binary   the bits of e, and the sign: log2(d) keys, d log2(d) / 2 switches
enum class TransposePolicy { kFast, kLight, kBinary };

// Throws std::invalid_argument unless it is "fast", "light" or "binary".
TransposePolicy transpose_policy(const std::string& name);

struct TransposePlan {
    int log_rows = 0;
    std::vector<std::uint64_t> elements;  // Galois elements of the keys, odd, above 1 and below 2d
    std::vector<std::vector<int>>
        steps;  // by position of ring/row_transform: the elements to apply, one by one

    // log_rows: log2(d), 3 to 13.
    TransposePlan(int log_rows, TransposePolicy policy);
    std::size_t switches() const;
};

}  // namespace cipherblas
