// What tests do otherwise in a build for valgrind, or with the thread sanitizer.
#pragma once

namespace cipherblas::testing {

// Programs run some fifty times slower there: what would take many minutes takes smaller sizes.
#if defined(CIPHERBLAS_VALGRIND) || defined(__SANITIZE_THREAD__)
inline constexpr bool kUnderValgrind = true;
#else
inline constexpr bool kUnderValgrind = false;
#endif

}  // namespace cipherblas::testing
