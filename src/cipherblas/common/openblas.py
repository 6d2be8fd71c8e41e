"""The float64 BLAS of the matrix products: the shared library of the wheel scipy-openblas64, loaded at the first need.

The core is not linked against a BLAS. It asks for one when a product could use it (`_core.modular_gemm`,
`_core.small_gemm`, `_core.double_gemm`), and does without where there is none.
"""

from __future__ import annotations

import ctypes
import importlib.util
import threading
from pathlib import Path

import cipherblas._core as _core

# The wheel prefixes the symbols of OpenBLAS and marks those of 64-bit integers (ILP64) by a suffix.
DGEMM = "scipy_cblas_dgemm64_"
SET_THREADS = "scipy_openblas_set_num_threads64_"
CONFIGURATION = "scipy_openblas_get_config64_"

_lock = threading.Lock()
_tried = False
_library: ctypes.CDLL | None = None  # kept: the core holds addresses in it


def load() -> bool:
    """Hand the BLAS to the core, once per process; whether there is one.

    A missing wheel, or a library that the system refuses, is no error: the paths that need it are then not
    available.
    """
    global _tried, _library
    with _lock:
        if not _tried:
            _tried = True
            _library = _open()
            if _library is not None:
                addresses = [
                    ctypes.cast(getattr(_library, name), ctypes.c_void_p).value
                    for name in (DGEMM, SET_THREADS)
                ]
                _core.register_blas(*(address or 0 for address in addresses))
        return _library is not None


def _open() -> ctypes.CDLL | None:
    # The wheel's package is found, not imported: it opens its library with RTLD_GLOBAL, and SciPy's LAPACK, which has
    # some of the names (droundup_lwork_), would then call functions of 64-bit integers with 32-bit ones.
    spec = importlib.util.find_spec("scipy_openblas64")
    if spec is None or spec.origin is None:
        return None
    paths = sorted((Path(spec.origin).parent / "lib").glob("libscipy_openblas64*"))
    try:
        library = ctypes.CDLL(str(paths[0]))
    except (IndexError, OSError):
        return None
    return library if hasattr(library, DGEMM) and hasattr(library, SET_THREADS) else None


def description() -> str:
    """Version and kernels of the BLAS, as it names them itself; "none" where there is none."""
    if not load() or _library is None or not hasattr(_library, CONFIGURATION):
        return "none"
    configuration = getattr(_library, CONFIGURATION)
    configuration.restype = ctypes.c_char_p
    words = configuration().decode(errors="replace").split()
    return " ".join(words[:2] + words[-2:-1])
