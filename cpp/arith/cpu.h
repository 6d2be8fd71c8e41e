// Which instruction sets this CPU and operating system support.
#pragma once

namespace cipherblas {

enum class Isa { kScalar, kAvx2, kAvx512Ifma };

// True when the CPU has the instructions and the operating system saves their registers.
// kAvx2 stands for AVX2 and FMA; kAvx512Ifma for AVX-512 F, DQ, VL and IFMA.
bool cpu_supports(Isa isa);

// Made by Intel, whose prefetchers do better than our hints where those of AMD need them.
bool cpu_is_intel();

}  // namespace cipherblas
