"""The client plans the program, and makes its secret key. There are no evaluation keys: their file says so."""

from multiplication import Stage

stage = Stage.of()
program = stage.compiled()
stage.io.mkdir(parents=True, exist_ok=True)
program.save(stage.io / "program")
client = program.client()
stage.secret_key.parent.mkdir(parents=True, exist_ok=True)
client.save(stage.secret_key)
stage.keys.parent.mkdir(parents=True, exist_ok=True)
client.evaluation_keys().save(stage.keys)
print(program.explain())
