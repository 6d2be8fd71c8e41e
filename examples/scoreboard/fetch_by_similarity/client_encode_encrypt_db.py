"""The client encrypts the database and, where they are asked for, the payloads."""

import numpy as np
from similarity import PAYLOAD, Stage

stage = Stage.of()
operands = {"db": stage.read("db.bin", np.float32, stage.dimension)}
if not stage.count_only:
    operands["payloads"] = stage.read("payloads.bin", np.int16, PAYLOAD)
stage.uploads.mkdir(parents=True, exist_ok=True)
for name, operand in stage.client().encrypt(operands, folder=stage.uploads).items():
    operand.save(stage.uploads / name)
