"""The client encrypts a query."""

import numpy as np
from similarity import Stage

stage = Stage.of()
query = stage.read("query.bin", np.float32, stage.dimension)[0]
stage.client().encrypt({"query": query})["query"].save(stage.query)
