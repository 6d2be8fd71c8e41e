// The main function of every suite. CIPHERBLAS_ISA chooses the instruction set under test; one that this processor
// or build lacks makes the suite exit with 77, which CTest reports as skipped.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "ring/kernels.h"

int main(int argc, char** argv) {
    constexpr int kSkipped = 77;
    const char* isa = std::getenv("CIPHERBLAS_ISA");
    if (isa != nullptr && cipherblas::kernels_by_name(isa) == nullptr) {
        std::printf("skipped: this processor or build lacks %s\n", isa);
        return kSkipped;
    }
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
