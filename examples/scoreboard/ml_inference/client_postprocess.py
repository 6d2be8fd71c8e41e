"""The client writes the label of every image, a line each."""

import numpy as np
from inference import Stage

stage = Stage.of()
labels = np.load(stage.scores).reshape(len(np.load(stage.images)), -1).argmax(axis=1)
stage.predictions.write_text("".join(f"{label}\n" for label in labels), encoding="utf-8")
