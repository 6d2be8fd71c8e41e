"""Counts of FAME's 12 products in its published form: types I to IV of each set."""

from __future__ import annotations

# Eq. 12-15, by hand: 2(k + 1).
PUBLISHED_TRANSFORMS = {"A": (130, 34, 130, 130), "B": (258, 34, 258, 258), "C": (322, 34, 322, 322)}
# Rotations that are run, those by 0 aside.
ROTATIONS = {
    "A": (282, 3225, 5337, 378),
    "B": (538, 14553, 18841, 762),
    "C": (840, 23304, 28665, 1272),
}
