"""The client makes its secret key, and the public keys that the server needs."""

from similarity import Stage

stage = Stage.of()
client = stage.program().client()
stage.secret_key.parent.mkdir(parents=True, exist_ok=True)
client.save(stage.secret_key)
stage.keys.mkdir(parents=True, exist_ok=True)
client.write_evaluation_keys(stage.keys)
