// Linear transforms by baby and giant steps: sums of plaintexts times rotations of a ciphertext, each rotation made once for
// all sums and never stored, and then the rotated sums of these. Both kinds of rotations are hoisted (double hoisting of
// Bossuat, Mouchet, Troncoso-Pastoriza, Hubaux, eprint 2020/1203), limb by limb as in FAME: of a sum of baby steps only what the
// giant step switches is divided by P, the rest stays modulo Q P until the last ModDown.
#pragma once
#include <cstdint>
#include <vector>

#include "rlwe/baby_steps.h"
#include "rlwe/factor.h"
#include "rlwe/transform.h"

namespace cipherblas {

// Numbers of a baby step and of a plaintext.
struct BabyTerm {
    int baby = 0;
    int plaintext = 0;
};

struct GiantStep {
    Rotation rotation;
    std::vector<BabyTerm> terms;
};

struct GiantSteps {
    std::vector<CiphertextView> sources;  // as those of Transform, and so are the keys
    std::vector<Rotation> babies;
    std::vector<GiantStep> giants;
    std::vector<SwitchingKeyView> keys;
    std::vector<FactorView> plaintexts;  // with special limbs, all of which repeat as often
};

// out[s]: [components][limbs - 1][N] of each source, divided by the last limb; all of them read keys and plaintexts together.
// Throws std::invalid_argument when anything does not fit.
void run_giant_steps(const Context& context, const GiantSteps& steps, std::uint64_t* const* out);

}  // namespace cipherblas
