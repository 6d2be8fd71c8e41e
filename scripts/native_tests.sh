#!/usr/bin/env bash
# Builds the C++ suites and runs them for every instruction set that this machine has.
# usage: native_tests.sh BUILD_FOLDER [CMAKE_OPTION...]
set -euo pipefail

build=$1
shift
source=$(cd "$(dirname "$0")/.." && pwd)
jobs=${JOBS:-$(nproc)}

cmake -S "$source" -B "$build" -G Ninja --log-level=WARNING \
    -DPython_EXECUTABLE="$(command -v python3)" -DCIPHERBLAS_PYTHON=OFF -DCIPHERBLAS_TESTS=ON "$@"
cmake --build "$build" --parallel "$jobs"
ctest --parallel "$jobs" --test-dir "$build" --output-on-failure --no-tests=error
