"""The server: ciphertexts in, ciphertexts out."""

from multiplication import SIDES, Stage

import cipherblas as cb

stage = Stage.of()
server = stage.program().server(cb.EvaluationKeys.load(stage.keys))
operands = {name: cb.EncryptedOperand.load(stage.uploads / name, lazy=True) for name in SIDES}
result = server.run(operands)
stage.results.parent.mkdir(parents=True, exist_ok=True)
result.save(stage.results)
