"""The client encrypts both sides of all pairs."""

from multiplication import SIDES, Stage

stage = Stage.of()
stage.uploads.mkdir(parents=True, exist_ok=True)
for name, operand in stage.client().encrypt({name: stage.read(name) for name in SIDES}).items():
    operand.save(stage.uploads / name)
