// What tests do otherwise in a build for valgrind.
#pragma once

namespace cipherblas::testing {

// Programs run some fifty times slower there: what would take many minutes takes smaller sizes.
#ifdef CIPHERBLAS_VALGRIND
inline constexpr bool kUnderValgrind = true;
#else
inline constexpr bool kUnderValgrind = false;
#endif

}  // namespace cipherblas::testing
