"""The data of the demonstration: scikit-learn's handwritten digits, 1797 images of 8×8 pixels from 0 to 16."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import StorageError

SEED = 20
PIXEL_BOUND = 16.0
RIDGE = 3e4  # strong enough that pixels which are hardly ever set get no large weight


@dataclass(frozen=True)
class Digits:
    """Two disjoint sets of images, ordered by digit, and a public classifier trained on a third.

    Attributes:
        queries: images to recognise, q × 64, rows of length 1.
        gallery: known images, g × 64, rows of length 1.
        pixels: the queries as columns of pixels, 64 × q, from 0 to 16.
        weights: the classifier, 10 × 64: the largest of `weights @ pixels` in a column is its digit.
        query_digits, gallery_digits: the true digits.
    """

    queries: NDArray[np.float64]
    gallery: NDArray[np.float64]
    pixels: NDArray[np.float64]
    weights: NDArray[np.float64]
    query_digits: NDArray[np.int64]
    gallery_digits: NDArray[np.int64]


def load_digits(queries: int, gallery: int) -> Digits:
    """Draw the sets and train the classifier.

    Raises:
        StorageError: scikit-learn, which brings the images, is not installed.
    """
    try:
        from sklearn.datasets import load_digits as load
        from sklearn.linear_model import RidgeClassifier
    except ImportError as error:
        raise StorageError(
            "The demonstration needs the digits of scikit-learn.",
            advice="pip install scikit-learn",
            cause=f"{error}.",
        ) from error
    images, digits = load(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(digits))
    parts = np.split(order, [queries, queries + gallery])
    query, known, training = parts[0], parts[1], parts[2]
    query, known = (part[np.argsort(digits[part], kind="stable")] for part in (query, known))
    classifier = RidgeClassifier(alpha=RIDGE, fit_intercept=False).fit(images[training], digits[training])
    return Digits(
        queries=_unit_rows(images[query]),
        gallery=_unit_rows(images[known]),
        pixels=np.ascontiguousarray(images[query].T),
        weights=np.asarray(classifier.coef_, dtype=np.float64),
        query_digits=digits[query],
        gallery_digits=digits[known],
    )


def _unit_rows(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(matrix / np.linalg.norm(matrix, axis=1, keepdims=True))
