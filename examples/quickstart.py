"""Multiply two encrypted matrices: plan, keys, encrypt, compute, decrypt."""

import numpy as np

import cipherblas as cb

A, B = np.random.default_rng(1).uniform(-1, 1, (2, 160, 160))

program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(160, 160), "b": cb.secret(160, 160)}, precision=1e-4)
print(program.explain())  # algorithm, parameters, keys, seconds, memory, error: all predicted

client = program.client()  # makes the secret key, which never leaves this object
server = program.server(client.evaluation_keys())  # public material only

c = server.run(client.encrypt({"a": A, "b": B}))
C = client.decrypt(c)
print(f"computed in {server.last.seconds:.3f} s, largest error {np.abs(C - A @ B).max():.1e}")
