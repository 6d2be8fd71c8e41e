"""The client encrypts its images, each by itself."""

import shutil

import numpy as np
from inference import Stage, made

stage = Stage.of()
client = stage.client()
shutil.rmtree(stage.uploads, ignore_errors=True)  # of an earlier run
for number, image in enumerate(np.load(stage.images)):
    client.encrypt({"x": image})["x"].save(made(stage.uploads / str(number)))
