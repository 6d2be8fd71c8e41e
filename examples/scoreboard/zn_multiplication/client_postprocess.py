"""The client writes the products: decimal, one on each line."""

import numpy as np
from multiplication import Stage

stage = Stage.of()
products = np.load(stage.decrypted)
folder = stage.io / "cleartext_output"
folder.mkdir(parents=True, exist_ok=True)
(folder / "out.txt").write_text("\n".join(map(str, products.tolist())) + "\n", encoding="ascii")
