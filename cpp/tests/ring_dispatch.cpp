#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "arith/cpu.h"
#include "ring/kernels.h"

namespace cipherblas {
namespace {

TEST(Dispatch, NamesAndTables) {
    ASSERT_NE(kernels_by_name("scalar"), nullptr);
    for (const char* name : {"scalar", "avx2", "avx512ifma"}) {
        const Kernels* table = kernels_by_name(name);
        if (table != nullptr) {
            EXPECT_STREQ(table->name, name);
        }
    }
    EXPECT_EQ(kernels_by_name("sse2"), nullptr);
    EXPECT_EQ(kernels_by_name(""), nullptr);
#if defined(CIPHERBLAS_X86_KERNELS)
    EXPECT_EQ(kernels_by_name("avx2") != nullptr, cpu_supports(Isa::kAvx2));
    EXPECT_EQ(kernels_by_name("avx512ifma") != nullptr, cpu_supports(Isa::kAvx512Ifma));
#endif
}

// One test, because the choice is made once per process: an unknown name throws, and the next call chooses anew.
TEST(Dispatch, TheEnvironmentForcesATable) {
    const char* given = std::getenv("CIPHERBLAS_ISA");
    const std::string forced = given == nullptr ? "scalar" : given;
    setenv("CIPHERBLAS_ISA", "neon", 1);
    try {
        kernels();
        FAIL() << "an unknown name was accepted";
    } catch (const std::runtime_error& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("got neon"), std::string::npos) << text;
        EXPECT_NE(text.find("scalar"), std::string::npos) << text;
    }
    setenv("CIPHERBLAS_ISA", forced.c_str(), 1);
    EXPECT_EQ(std::string(kernels().name), forced);
    EXPECT_EQ(&kernels(), kernels_by_name(forced.c_str()));
}

}  // namespace
}  // namespace cipherblas
