#!/usr/bin/env bash
# Runs Python tests with the extension module that `make sanitize` built: the arrays of NumPy are then watched too, since
# the address sanitizer replaces malloc in the whole process.
# usage: sanitized_python.sh BUILD_FOLDER PYTHON PYTEST_ARGUMENT...
set -euo pipefail

source=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
python=$2
shift 2

# The package with that module instead of the installed one.
package=$build/python/cipherblas
rm -rf "$build/python"
mkdir -p "$build/python"
cp -r "$source/src/cipherblas" "$package"
rm -f "$package"/_core*.so
cp "$build"/_core*.so "$package"
"$python" -m compileall -q "$package"  # once, by an interpreter that is not watched

# The interpreter is not linked to the sanitizers, so they come first; libstdc++ too, whose exceptions they intercept.
# Python leaves memory to the end of the process, which is no leak; its own allocator would hide what lies behind an object.
preload=
for library in libasan.so libubsan.so libstdc++.so; do
    preload+="$("${CXX:-g++}" -print-file-name=$library) "
done
export PYTHONPATH=$build/python PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1

used=$(LD_PRELOAD=$preload "$python" -c 'from cipherblas import _core; print(_core.__file__)')
case $used in
    "$package"/*) ;;
    *)
        echo "expected the sanitized module in $package, got $used" >&2
        exit 1
        ;;
esac
# A report goes to the standard error of the process, which it ends: pytest must not keep that to itself.
LD_PRELOAD=$preload exec "$python" -m pytest -q -p no:cacheprovider --capture=sys "$@"
