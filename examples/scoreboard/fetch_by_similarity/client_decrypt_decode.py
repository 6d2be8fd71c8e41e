"""The client decrypts."""

import numpy as np
from similarity import Stage

import cipherblas as cb

stage = Stage.of()
found = stage.client().decrypt(cb.EncryptedResult.load(stage.results))
np.savez(stage.decrypted, **(found if isinstance(found, dict) else {"count": found}))
