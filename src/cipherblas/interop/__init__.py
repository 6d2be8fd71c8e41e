"""Other libraries at the client's side: their keys and ciphertexts as bytes, none of them imported.

`seal`: Microsoft SEAL, and all that wraps it.
"""

from cipherblas.interop import seal

__all__ = ["seal"]
