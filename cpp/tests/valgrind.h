// What tests do otherwise in a build for valgrind, or with a sanitizer.
#pragma once

namespace cipherblas::testing {

// Programs run up to fifty times slower there: what would take many minutes takes smaller sizes, and fewer moduli. All of
// them are for the release build.
#if defined(CIPHERBLAS_VALGRIND) || defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kWatched = true;
#else
inline constexpr bool kWatched = false;
#endif

}  // namespace cipherblas::testing
