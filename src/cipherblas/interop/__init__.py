"""Other libraries at the client's side: their keys and ciphertexts as bytes, none of them imported.

`seal`: Microsoft SEAL, and all that wraps it. `openfhe`: OpenFHE.
"""

from cipherblas.interop import openfhe, seal

__all__ = ["openfhe", "seal"]
