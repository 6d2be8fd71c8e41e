"""Every module that enters methods, conversions or forms into the tables of `runtime.executor`."""

from cipherblas.runtime import (  # noqa: F401
    arranged,
    blocks,
    conversions,
    features,
    joins,
    refreshing,
    rows,
    tensors,
)
