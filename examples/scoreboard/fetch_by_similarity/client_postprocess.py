"""The client picks the payloads of the matches, in lexicographic order, or rounds their number."""

import numpy as np
from similarity import PAYLOAD, Stage

stage = Stage.of()
found = np.load(stage.decrypted)
if stage.count_only:
    np.rint(found["count"]).astype(np.int_).reshape(1).tofile(stage.io / "results.bin")
else:
    match = found["match"]
    unclear = int(((match > 0.01) & (match < 0.99)).sum())
    if unclear:
        print(
            f"{unclear} records are too near to the threshold to tell: those above one half are taken as matches,"
        )
        print("and their payloads are wrong by what their match lacks to 1")
    chosen = match > 0.5
    columns = [found[f"payload_{column}"][chosen] for column in range(PAYLOAD)]
    payloads = np.rint(np.stack(columns, axis=1)).astype(np.int16)
    payloads[np.lexsort(payloads.T[::-1])].tofile(stage.io / "results.bin")
