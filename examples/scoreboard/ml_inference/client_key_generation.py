"""The client makes its secret key, and the public keys that the server needs."""

from inference import Stage, client_program, made

stage = Stage.of()
client = client_program().client()
client.save(made(stage.secret_key))
stage.keys.mkdir(parents=True, exist_ok=True)
client.write_evaluation_keys(stage.keys)
