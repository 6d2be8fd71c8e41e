"""BLAS for encrypted matrices.

>>> import cipherblas as cb
>>> program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(8, 8), "b": cb.secret(8, 8)})

See `compile`, `secret`, `public`, `Program`, `Client`, `Encryptor`, `Server`; for methods of one's own `lab` and
`register`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cipherblas.common import environment
from cipherblas.common.environment import isa, set_threads, threads
from cipherblas.common.errors import (
    CancelledError,
    CipherblasError,
    DTypeError,
    FormatError,
    InsecureParametersWarning,
    LevelError,
    MemoryBudgetError,
    MismatchError,
    MissingKeyError,
    ParameterError,
    PrecisionError,
    PrecisionWarning,
    RangeError,
    SecretCopyError,
    SecurityError,
    ServiceError,
    ShapeError,
    StorageError,
    UnknownNameError,
    UnsupportedNodeError,
    VersionError,
    WorkBudgetError,
)
from cipherblas.crypto.keys import EvaluationKeys, PublicKey
from cipherblas.lang import from_numpy  # noqa: F401  (enters NumPy's functions of nodes)
from cipherblas.lang.approximation import chebyshev
from cipherblas.lang.array_functions import (
    broadcast_to,
    concatenate,
    cumsum,
    diag,
    diagonal,
    dot,
    expand_dims,
    inner,
    matmul,
    matrix_power,
    mean,
    outer,
    power,
    ravel,
    reshape,
    squared_norm,
    squeeze,
    stack,
    sum,
    trace,
    transpose,
    var,
    vdot,
    where,
)
from cipherblas.lang.comparison import greater, relu, sign
from cipherblas.lang.elementary import exp, gelu, inverse, sigmoid, sqrt, tanh
from cipherblas.lang.functions import assume, avg_pool2d, conv2d, flatten, matvec, polynomial, square
from cipherblas.lang.joins import joined, split
from cipherblas.lang.operands import Encoding, columns, public, secret
from cipherblas.lang.refreshing import refresh
from cipherblas.lang.spelled import SPELLED

if TYPE_CHECKING:
    from cipherblas import interop, lab, networks, sklearn
    from cipherblas.common.configuration import show_config
    from cipherblas.engines.registry import register_engine
    from cipherblas.lang import blas
    from cipherblas.methods.registry import register
    from cipherblas.planner.predict.machine import Machine
    from cipherblas.planner.predict.promises import SampledErrors
    from cipherblas.planner.predict.simulation import RangeFound
    from cipherblas.roles.client import Client
    from cipherblas.roles.client_program import ClientProgram
    from cipherblas.roles.encryptor import Encryptor
    from cipherblas.roles.inspecting import FileFacts, inspect
    from cipherblas.roles.one_run import Run
    from cipherblas.roles.program import Program, compile
    from cipherblas.roles.server import Server
    from cipherblas.roles.sharing import Sharing
    from cipherblas.roles.together import JointClient, Programs, compile_together
    from cipherblas.roles.wire.messages import EncryptedOperand, EncryptedResult
    from cipherblas.roles.wire.report import RunReport
    from cipherblas.service.remote import (
        AsyncService,
        ServedClient,
        ServedJob,
        ServedProgram,
        Service,
        aconnect,
        connect,
    )

__version__ = "0.1.0"

__all__ = [
    "AsyncService",
    "CancelledError",
    "CipherblasError",
    "Client",
    "ClientProgram",
    "DTypeError",
    "Encoding",
    "EncryptedOperand",
    "EncryptedResult",
    "Encryptor",
    "EvaluationKeys",
    "FileFacts",
    "FormatError",
    "InsecureParametersWarning",
    "JointClient",
    "LevelError",
    "Machine",
    "MemoryBudgetError",
    "MismatchError",
    "MissingKeyError",
    "ParameterError",
    "PrecisionError",
    "PrecisionWarning",
    "Program",
    "Programs",
    "PublicKey",
    "RangeError",
    "RangeFound",
    "Run",
    "RunReport",
    "SampledErrors",
    "SecretCopyError",
    "SecurityError",
    "ServedClient",
    "ServedJob",
    "ServedProgram",
    "Server",
    "Service",
    "ServiceError",
    "ShapeError",
    "Sharing",
    "StorageError",
    "UnknownNameError",
    "UnsupportedNodeError",
    "VersionError",
    "WorkBudgetError",
    "aconnect",
    "assume",
    "avg_pool2d",
    "blas",
    "broadcast_to",
    "chebyshev",
    "columns",
    "compile",
    "compile_together",
    "concatenate",
    "connect",
    "conv2d",
    "cumsum",
    "diag",
    "diagonal",
    "dot",
    "exp",
    "expand_dims",
    "flatten",
    "gelu",
    "greater",
    "inner",
    "inspect",
    "interop",
    "inverse",
    "isa",
    "joined",
    "lab",
    "matmul",
    "matrix_power",
    "matvec",
    "mean",
    "networks",
    "outer",
    "polynomial",
    "power",
    "public",
    "ravel",
    "refresh",
    "register",
    "register_engine",
    "relu",
    "reshape",
    "secret",
    "set_threads",
    "show_config",
    "sigmoid",
    "sign",
    "sklearn",
    "split",
    "sqrt",
    "square",
    "squared_norm",
    "squeeze",
    "stack",
    "sum",
    "tanh",
    "threads",
    "trace",
    "transpose",
    "var",
    "vdot",
    "where",
]

# Name → module of what plans and runs programs: half of the time that an import takes, and spent on first use.
_ON_FIRST_USE = {
    "Client": "cipherblas.roles.client",
    "ClientProgram": "cipherblas.roles.client_program",
    "EncryptedOperand": "cipherblas.roles.wire.messages",
    "EncryptedResult": "cipherblas.roles.wire.messages",
    "Encryptor": "cipherblas.roles.encryptor",
    "FileFacts": "cipherblas.roles.inspecting",
    "JointClient": "cipherblas.roles.together",
    "Machine": "cipherblas.planner.predict.machine",
    "Program": "cipherblas.roles.program",
    "Programs": "cipherblas.roles.together",
    "RangeFound": "cipherblas.planner.predict.simulation",
    "SampledErrors": "cipherblas.planner.predict.promises",
    "Run": "cipherblas.roles.one_run",
    "RunReport": "cipherblas.roles.wire.report",
    "Server": "cipherblas.roles.server",
    **dict.fromkeys(
        ("AsyncService", "ServedClient", "ServedJob", "ServedProgram"), "cipherblas.service.remote"
    ),
    "Service": "cipherblas.service.remote",
    "Sharing": "cipherblas.roles.sharing",
    "aconnect": "cipherblas.service.remote",
    "connect": "cipherblas.service.remote",
    "blas": "cipherblas.lang.blas",
    "compile": "cipherblas.roles.program",
    "compile_together": "cipherblas.roles.together",
    "inspect": "cipherblas.roles.inspecting",
    "interop": "cipherblas.interop",
    "lab": "cipherblas.lab",
    "networks": "cipherblas.networks",
    "register": "cipherblas.methods.registry",
    "register_engine": "cipherblas.engines.registry",
    "show_config": "cipherblas.common.configuration",
    "sklearn": "cipherblas.sklearn",
}


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        if name in SPELLED:
            raise UnknownNameError(f"cipherblas has no {name!r}.", advice=SPELLED[name])
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    environment.check()
    module = importlib.import_module(_ON_FIRST_USE[name])
    value = module if module.__name__.endswith(f".{name}") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_FIRST_USE})
