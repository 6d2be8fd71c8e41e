"""The client decrypts."""

import numpy as np
from multiplication import Stage

import cipherblas as cb

stage = Stage.of()
np.save(stage.decrypted, stage.client().decrypt(cb.EncryptedResult.load(stage.results)))
