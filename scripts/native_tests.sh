#!/usr/bin/env bash
# Builds the C++ suites and runs them for every instruction set that this machine has; with TESTS=no, builds alone.
# usage: native_tests.sh BUILD_FOLDER [CMAKE_OPTION...]
set -euo pipefail

build=$1
shift
source=$(cd "$(dirname "$0")/.." && pwd)
jobs=${JOBS:-$(nproc)}

cmake -S "$source" -B "$build" -G Ninja --log-level=WARNING \
    -DCMAKE_MAKE_PROGRAM="$(command -v ninja)" -DPython_EXECUTABLE="$(command -v python3)" \
    -DCIPHERBLAS_PYTHON=OFF -DCIPHERBLAS_TESTS=ON "$@"
cmake --build "$build" --parallel "$jobs"
[ "${TESTS:-yes}" = yes ] || exit 0
ctest --parallel "$jobs" --test-dir "$build" --output-on-failure --no-tests=error
