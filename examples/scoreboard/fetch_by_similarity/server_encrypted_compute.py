"""The server: ciphertexts and public keys in, ciphertexts out."""

import json
import time

from similarity import Stage

import cipherblas as cb

stage = Stage.of()
steps: dict[str, float] = {}


def done(what: str, since: float) -> float:
    """Note how long a step took."""
    now = time.perf_counter()
    steps[what] = round(now - since, 3)
    return now


start = began = time.perf_counter()
server = stage.program().server(cb.EvaluationKeys.load(stage.keys))
start = done("Loading keys", start)
names = ["db"] if stage.count_only else ["db", "payloads"]
operands = {name: cb.EncryptedOperand.load(stage.uploads / name, lazy=True) for name in names}
operands["query"] = cb.EncryptedOperand.load(stage.query)
start = done("Loading ciphertexts", start)
result = server.run(operands)
start = done("Computation", start)
stage.results.parent.mkdir(parents=True, exist_ok=True)
result.save(stage.results)
done("Writing the result", start)
done("Total", began)
(stage.io / "server_reported_steps.json").write_text(json.dumps(steps), encoding="utf-8")
