"""What a fitted model of scikit-learn computes: a product and a sum, then layers or distances.

Products and sums are found by asking the model for the rows of an identity matrix and for zeros, and are checked on
data. What the client does with decrypted scores is done by a copy of the model, whose own product is by an identity.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import DTypeError, ParameterError, UnsupportedNodeError
from cipherblas.networks.functions import FUNCTIONS
from cipherblas.networks.layers import Activation, Dense, Layer

Array = NDArray[np.float64]
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform")
NEAR = 1e-7  # of what a model computes, relative to its largest value: rounding
ACTIVATIONS = {"logistic": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}
INSTALL = "pip install scikit-learn"
COMPUTED = (
    "a linear model or a linear support vector machine",
    "an MLP, PCA, a scaler, k-means, or a pipeline of these",
)


@dataclass(frozen=True)
class Computed:
    """A model as an encrypted program computes it.

    Attributes:
        matrix, offset: of the product and the sum that come first.
        layers: after these, of an MLP.
        centres: whose squared distances are the scores, of k-means.
        methods: of the model, by name: what the client makes of decrypted scores.
    """

    matrix: Array
    offset: Array
    layers: tuple[Layer, ...]
    centres: Array | None
    methods: dict[str, Callable[[Array], Any]]

    def __call__(self, x: Array) -> Array:
        """The scores in the clear, of rows."""
        found = x @ self.matrix + self.offset
        for layer in self.layers:
            found = layer.clear(found)
        return found if self.centres is None else distances(found, self.centres)


def read(model: Any, x: Array) -> Computed:
    """Return a fitted model as it is computed encrypted; x are rows of its data.

    Raises:
        ParameterError: scikit-learn is not installed, or the model is not fitted. DTypeError: it is none of its models.
        UnsupportedNodeError: it is not computed encrypted.
    """
    base = _library()
    if not isinstance(model, base):
        raise DTypeError(
            "Only fitted models of scikit-learn are encrypted.",
            got=type(model).__name__,
            advice="encrypted(model, X), with a model of scikit-learn and rows of its data",
        )
    *before, last = [_without_names(step) for step in steps(model)]
    _check_fitted([*before, last])
    matrix, offset = np.eye(x.shape[1]), np.zeros(x.shape[1])
    for step in before:
        own, more = _affine(step, step.transform, matrix.shape[1], x @ matrix + offset)
        matrix, offset = matrix @ own, offset @ own + more
    return _last(last, matrix, offset, x @ matrix + offset)


def _library() -> Any:
    try:
        from sklearn.base import BaseEstimator
    except ImportError as error:
        raise ParameterError("The package scikit-learn is not installed.", advice=INSTALL) from error
    return BaseEstimator


def steps(model: Any) -> list[Any]:
    """The models of a pipeline in their order, those of pipelines in it too; of a search the best one that it found."""
    if hasattr(model, "best_estimator_"):
        return steps(model.best_estimator_)
    if not hasattr(model, "steps"):
        return [model]
    found = [one for _, step in model.steps if step not in (None, "passthrough") for one in steps(step)]
    if not found:
        raise UnsupportedNodeError(
            "The pipeline has no step that computes something.",
            advice="encrypted(pipeline, X) of a fitted model",
        )
    return found


def _without_names(model: Any) -> Any:
    """The same model for arrays without names of columns, of which it would warn."""
    found = copy.copy(model)
    vars(found).pop("feature_names_in_", None)
    return found


def check_names(names: Sequence[str] | None, table: Any) -> None:
    """Check that the columns of a table are those that a model was fitted on, in their order; arrays have no names.

    Raises:
        ParameterError: they are others, or in another order.
    """
    given = getattr(table, "column_names", getattr(table, "columns", None))
    if names is None or given is None or list(given) == list(names):
        return
    raise ParameterError(
        "The table has other columns than the model was fitted on, or in another order.",
        advice="X[list(model.feature_names_in_)] in the place of X",
    )


def _check_fitted(models: Sequence[Any]) -> None:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    for model in models:
        try:
            check_is_fitted(model)
        except NotFittedError:
            raise ParameterError(
                f"The {type(model).__name__} is not fitted.", advice="encrypted(model.fit(X, y), X)"
            ) from None
        except TypeError:
            raise _refusal(model, "It has no method fit.") from None


def _refusal(model: Any, cause: str) -> UnsupportedNodeError:
    return UnsupportedNodeError(
        f"A {type(model).__name__} is not computed encrypted.", advice=COMPUTED, cause=cause
    )


def _affine(model: Any, call: Callable[[Array], Any], features: int, data: Array) -> tuple[Array, Array]:
    """The matrix and the offset of what a model makes of rows.

    Raises:
        UnsupportedNodeError: it makes something else of them.
    """
    if getattr(model, "clip", False) or not (
        hasattr(model, "coef_") or isinstance(model, _linear_transformers())
    ):
        raise _refusal(model, "What it makes of a row is no product with a matrix and a sum.")
    rows = np.vstack([np.zeros(features), np.eye(features)])
    offset, *found = _rows(call(rows))
    matrix = np.array(found) - offset
    expected = _rows(call(data))
    size = max(np.abs(expected).max(initial=0.0), np.abs(offset).max(initial=0.0), 1e-300)
    if np.abs(data @ matrix + offset - expected).max(initial=0.0) > NEAR * size:
        raise _refusal(model, "What it makes of the rows of X is no product with a matrix and a sum.")
    return matrix, offset


def _rows(values: Any) -> Array:
    """As a matrix; values of one number for each row are a column."""
    array = np.asarray(values.toarray() if hasattr(values, "toarray") else values, np.float64)
    return array.reshape(len(array), -1)


def _linear_transformers() -> tuple[type, ...]:
    from sklearn.feature_selection import SelectorMixin

    from sklearn import decomposition, preprocessing

    scalers = [getattr(preprocessing, f"{name}Scaler") for name in ("Standard", "MinMax", "MaxAbs", "Robust")]
    parts = [decomposition.PCA, decomposition.IncrementalPCA, decomposition.TruncatedSVD]
    return (*scalers, *parts, SelectorMixin)


def _last(model: Any, matrix: Array, offset: Array, data: Array) -> Computed:
    """The model at the end of a pipeline, after a product and a sum that make `data`."""
    from sklearn.base import is_outlier_detector

    own: tuple[Array, Array] | None = None
    layers: tuple[Layer, ...] = ()
    centres = None
    features = matrix.shape[1]
    if hasattr(model, "coefs_") and hasattr(model, "out_activation_"):
        own, layers = (np.asarray(model.coefs_[0]), np.asarray(model.intercepts_[0])), _hidden(model)
        methods = _by_copy(model)
    elif hasattr(model, "cluster_centers_") and hasattr(model, "inertia_"):
        if hasattr(model, "bisecting_strategy"):
            raise _refusal(model, "It follows a tree of centres, and finds another one than the nearest.")
        centres = np.asarray(model.cluster_centers_, np.float64)
        methods = {"transform": lambda z: np.sqrt(np.maximum(z, 0.0)), "predict": lambda z: z.argmin(axis=1)}
    elif is_outlier_detector(model):
        raise _refusal(model, "It compares scores with a limit: its labels are no product and a sum.")
    elif hasattr(model, "decision_function") and hasattr(model, "classes_") and hasattr(model, "coef_"):
        own, methods = _affine(model, model.decision_function, features, data), _by_copy(model)
    elif hasattr(model, "coef_") and hasattr(model, "predict"):
        own = _affine(model, model.predict, features, data)
        flat = np.ndim(model.predict(data[:1])) == 1
        methods = {"predict": lambda z: z[:, 0] if flat else z}
    elif hasattr(model, "transform"):
        own, methods = _affine(model, model.transform, features, data), {"transform": lambda z: z}
    else:
        raise _refusal(model, "What it makes of a row is no product with a matrix and a sum.")
    if own is not None:
        matrix, offset = matrix @ own[0], offset @ own[0] + own[1]
    return Computed(matrix, offset, layers, centres, methods)


def _hidden(model: Any) -> tuple[Layer, ...]:
    """The layers of an MLP after its first product."""
    found: list[Layer] = []
    for weights, bias in zip(model.coefs_[1:], model.intercepts_[1:], strict=True):
        if model.activation != "identity":
            name = ACTIVATIONS[model.activation]
            found.append(Activation(name, FUNCTIONS[name][0]))
        found.append(Dense(np.asarray(weights, np.float64).T, np.asarray(bias, np.float64)))
    return tuple(found)


def _by_copy(model: Any) -> dict[str, Callable[[Array], Any]]:
    """The methods of a copy of the model whose own product is that by an identity: of scores, what the model itself
    makes of these."""
    twin = copy.copy(model)
    count = len(model.intercepts_[-1]) if hasattr(model, "coefs_") else np.atleast_2d(model.coef_).shape[0]
    if hasattr(model, "coefs_"):
        twin.coefs_, twin.intercepts_, twin.n_layers_ = [np.eye(count)], [np.zeros(count)], 2
        twin.hidden_layer_sizes = ()
    elif hasattr(model, "support_vectors_"):
        return _of_two_classes(model)
    else:
        twin.coef_, twin.intercept_ = np.eye(count), np.zeros(count)
    twin.n_features_in_ = count

    def by(name: str) -> Callable[[Array], Any]:
        def called(scores: Array) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return getattr(twin, name)(scores)

        return called

    return {name: by(name) for name in METHODS if hasattr(model, name) and name != "transform"}


def _of_two_classes(model: Any) -> dict[str, Callable[[Array], Any]]:
    """Of a support vector machine with a linear kernel, whose scores are one for each pair of classes."""
    if len(model.classes_) > 2:
        raise UnsupportedNodeError(
            "A support vector machine of more than two classes is not computed encrypted.",
            advice=("LinearSVC(), with one score for each class", "an SVC for each class against the others"),
            cause="Its scores are votes of pairs of classes.",
        )
    return {
        "decision_function": lambda z: z[:, 0],
        "predict": lambda z: np.asarray(model.classes_)[(z[:, 0] > 0).astype(int)],
    }


def distances(z: Any, centres: Array) -> Any:
    """The squared distances of rows to centres, of arrays or of nodes."""
    return (z * z).sum(axis=1, keepdims=True) - 2 * (z @ centres.T) + (centres * centres).sum(axis=1)
