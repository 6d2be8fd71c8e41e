#include "arith/cpu.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace cipherblas {

#if defined(__x86_64__)

namespace {

struct Features {
    bool avx2 = false;
    bool avx512ifma = false;
};

// Register state enabled by the operating system (XCR0).
std::uint64_t enabled_state() {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (static_cast<std::uint64_t>(high) << 32) | low;
}

Features detect() {
    Features features;
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return features;
    if ((ecx & bit_OSXSAVE) == 0 || (ecx & bit_AVX) == 0) return features;
    const bool fma = (ecx & bit_FMA) != 0;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return features;
    const std::uint64_t state = enabled_state();
    constexpr std::uint64_t kYmmState = 0x06;  // SSE and AVX
    constexpr std::uint64_t kZmmState = 0xe6;  // and opmask, upper ZMM halves, ZMM16..31
    features.avx2 = fma && (ebx & bit_AVX2) != 0 && (state & kYmmState) == kYmmState;
    constexpr unsigned kNeeded = bit_AVX512F | bit_AVX512DQ | bit_AVX512VL | bit_AVX512IFMA;
    features.avx512ifma = features.avx2 && (ebx & kNeeded) == kNeeded && (ecx & bit_AVX512VBMI) != 0 &&
                          (ecx & bit_AVX512VNNI) != 0 && (state & kZmmState) == kZmmState;
    return features;
}

}  // namespace

bool cpu_supports(Isa isa) {
    static const Features features = detect();
    if (isa == Isa::kAvx2) return features.avx2;
    if (isa == Isa::kAvx512Ifma) return features.avx512ifma;
    return true;
}

bool cpu_is_intel() {
    static const bool intel = __builtin_cpu_is("intel") != 0;
    return intel;
}

#else

bool cpu_supports(Isa isa) { return isa == Isa::kScalar; }
bool cpu_is_intel() { return false; }

#endif

}  // namespace cipherblas
