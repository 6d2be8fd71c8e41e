"""The server: ciphertexts and public keys in, ciphertexts out."""

import json
import shutil
import time

from inference import Stage, made, numbered, server_program

import cipherblas as cb

stage = Stage.of()
start = time.perf_counter()
server = server_program().server(cb.EvaluationKeys.load(stage.keys))
loaded = time.perf_counter()
shutil.rmtree(stage.downloads, ignore_errors=True)
each = []
for path in numbered(stage.uploads):
    result = server.run({"x": cb.EncryptedOperand.load(path)})
    result.save(made(stage.downloads / path.name))
    each.append(server.last.seconds)
    print(f"         [server] image {path.name}: {server.last.seconds:.1f} s", flush=True)
steps = {
    "Loading the network and keys": round(loaded - start, 3),
    "Computation of the first image": round(each[0], 3),
    "Computation of all images": round(sum(each), 3),
    "Total": round(time.perf_counter() - start, 3),
}
(stage.io / "server_reported_steps.json").write_text(json.dumps(steps), encoding="utf-8")
