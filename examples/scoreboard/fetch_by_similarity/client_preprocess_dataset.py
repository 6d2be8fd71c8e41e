"""The client plans the program: rings, keys, layouts. Nothing depends on the data."""

from similarity import Stage

stage = Stage.of()
program = stage.compiled()
program.save(stage.io / "program")
print(program.explain())
