// Sums of products of plaintexts with rotations of one ciphertext, each rotation made once for all sums and never stored:
// the baby steps of a linear transform, with one ModDown per sum instead of one per rotation.
// Source: double hoisting of Bossuat, Mouchet, Troncoso-Pastoriza, Hubaux (eprint 2020/1203), limb by limb as in FAME.
#pragma once
#include <cstdint>
#include <vector>

#include "rlwe/transform.h"

namespace cipherblas {

// key: -1 for Galois element 1 alone.
struct BabyStep {
    std::uint64_t galois = 1;
    int key = -1;
};

// Numbers of a baby step and of a plaintext.
struct BabyTerm {
    int baby = 0;
    int plaintext = 0;
};

struct BabySums {
    CiphertextView source;  // as those of Transform, and so are the keys
    std::vector<BabyStep> babies;
    std::vector<SwitchingKeyView> keys;
    std::vector<PlaintextView> plaintexts;  // rows
    std::vector<std::vector<BabyTerm>> outputs;
};

// out[o]: [components][limbs][N]. Throws std::invalid_argument when anything does not fit.
void run_baby_sums(const Context& context, const BabySums& sums, std::uint64_t* const* out);

}  // namespace cipherblas
