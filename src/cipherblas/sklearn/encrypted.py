"""A fitted model of scikit-learn as a program: `encrypted`, and the model that it returns."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import finite_array
from cipherblas.common.errors import ParameterError, ShapeError
from cipherblas.lang.arguments import integer_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import Operand, columns, secret
from cipherblas.networks.layers import Dense, Layer, NetworkStep
from cipherblas.networks.network import TrainedNetwork
from cipherblas.roles.client import Client
from cipherblas.roles.program import Program, compile
from cipherblas.roles.server import Server
from cipherblas.sklearn.models import Computed, check_names, distances, read

OPERAND = "x"
ROWS = 128  # that are encrypted together at most, where nobody says how many
ERROR, LAYERED_ERROR = 1e-4, 1e-2  # of the scores' largest value on the data, by default; of an MLP's scores
ASKED = ("error", "precision", "agreement")  # options that say what is promised


class EncryptedModel:
    """A fitted model whose rows are encrypted; made by `encrypted`.

    Its methods are those of the model, of rows that a client encrypts and a server computes with, both in this process.
    Between two machines they are three steps:

        scores = client.decrypt(server.run(client.encrypt({"x": rows})))   # of model.program
        labels = model.finish(scores, "predict")                           # on the client

    Attributes:
        program: of the operand "x" (rows × features). Its result are the scores: decision values, outputs, components
            or squared distances.
        rows: that are encrypted together.
    """

    def __init__(self, model: Any, computed: Computed, program: Program, rows: int) -> None:
        self._name, self._names = type(model).__name__, getattr(model, "feature_names_in_", None)
        self._computed, self.program, self.rows = computed, program, rows

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the model's methods that it has: predict, predict_proba, decision_function, transform."""
        return tuple(self._computed.methods)

    @functools.cached_property
    def _ends(self) -> tuple[Client, Server]:
        client = self.program.client()
        return client, self.program.server(client.evaluation_keys())

    def scores(self, X: Any) -> NDArray[np.float64]:
        """The decrypted scores of rows that are encrypted here; keys are made once.

        Args:
            X: (any number of rows × features), within the bounds of the program.

        Raises:
            ShapeError: other features. ParameterError: a table of other columns, or in another order.
            RangeError: an entry is beyond the bound that the program was planned for.
        """
        rows = self._checked(X)
        client, server = self._ends
        found = []
        for start in range(0, len(rows), self.rows):
            part = rows[start : start + self.rows]
            whole = part[np.arange(self.rows) % len(part)]  # filled with rows like the others
            result = client.decrypt(server.run(client.encrypt({OPERAND: whole})))
            found.append(np.asarray(result)[: len(part)])
        return np.vstack(found)

    def clear_scores(self, X: Any) -> NDArray[np.float64]:
        """The same scores without encryption, by NumPy, and with the functions of an MLP themselves."""
        return self._computed(self._checked(X))

    def finish(self, scores: Any, method: str = "predict") -> Any:
        """Return the result of a method of the model for decrypted scores; the client calls it.

        Raises:
            ParameterError: the model has no such method.
        """
        return self._method(method)(finite_array(scores, "the scores", (2,)))

    def predict(self, X: Any) -> Any:
        """The model's `predict`, of encrypted rows. Arguments and errors: `scores`, `finish`."""
        return self._called("predict", X)

    def predict_proba(self, X: Any) -> Any:
        """The model's `predict_proba`, of encrypted rows. Arguments and errors: `scores`, `finish`."""
        return self._called("predict_proba", X)

    def decision_function(self, X: Any) -> Any:
        """The model's `decision_function`, of encrypted rows. Arguments and errors: `scores`, `finish`."""
        return self._called("decision_function", X)

    def transform(self, X: Any) -> Any:
        """The model's `transform`, of encrypted rows. Arguments and errors: `scores`, `finish`."""
        return self._called("transform", X)

    def _called(self, method: str, X: Any) -> Any:
        finished = self._method(method)
        return finished(self.scores(X))

    def _method(self, name: str) -> Callable[[Any], Any]:
        if name not in self._computed.methods:
            raise ParameterError(
                f"The {self._name} has no method of that name here.",
                got=name,
                advice=[f"model.{one}(X)" for one in self.methods],
            )
        return self._computed.methods[name]

    def _checked(self, X: Any) -> NDArray[np.float64]:
        check_names(self._names, X)
        rows = finite_array(X, "the rows of a model", (2,))
        features = len(self._computed.matrix)
        if rows.shape[1] != features:
            raise ShapeError(
                "The model has another number of features.", expected=features, got=rows.shape[1]
            )
        return rows

    def __repr__(self) -> str:
        return f"<Encrypted {self._name}: {', '.join(self.methods)}>"


def encrypted(
    model: Any, X: Any, *, batch: int | None = None, bound: Any = None, **options: Any
) -> EncryptedModel:
    """Plan a fitted model of scikit-learn for encrypted rows. The server holds the model, the client the rows.

    Linear models and linear support vector machines, PCA, scalers, feature selection, k-means, MLPs, and pipelines of
    these, whose products are one. Probabilities, labels and distances are made of the decrypted scores on the client,
    by scikit-learn itself.

    Args:
        model: fitted.
        X: rows like those to come, of which no entry is kept. Bounds are found on them, one for each feature: the power
            of two at or above its largest absolute value. The polynomials of an MLP are made for their ranges.
        batch: the rows that are encrypted together; by default as many as X has, at most 128.
        bound: of the entries, in the place of that of X: a number, or `columns([…])`.
        **options: of `compile`. Without error, precision or agreement the error is 1e-4 of the largest score on X, and
            1e-2 of it for an MLP.

    Levels: one for a product, two for k-means; of an MLP those of its functions too. Keys: relinearisation for k-means
    and MLPs, and rotations where the plan has them.

    Raises:
        ParameterError: scikit-learn is not installed, the model is not fitted, or X is a table of other columns.
        UnsupportedNodeError: the model is not computed encrypted; it says which are.
        DTypeError, ShapeError, RangeError: X are not rows of finite real numbers. Others as `compile`.

    Examples:
        >>> from sklearn.linear_model import Ridge
        >>> X = np.array([[0.0, 1.0], [1.0, 0.5], [0.5, 0.25]])
        >>> model = encrypted(Ridge().fit(X, [1.0, 2.0, 3.0]), X)
        >>> model.methods
        ('predict',)
    """
    check_names(getattr(model, "feature_names_in_", None), X)
    rows = finite_array(X, "the rows of a model", (2,))
    count = min(len(rows), ROWS) if batch is None else integer_of(batch, "The batch of a model")
    if count < 1:
        raise ShapeError("A batch of a model has one row or more.", got=count, advice="batch=1")
    features = getattr(model, "n_features_in_", rows.shape[1])
    if features != rows.shape[1]:
        raise ShapeError(
            "The model has another number of features than X.", expected=features, got=rows.shape[1]
        )
    computed = read(model, rows)
    if not any(option in options for option in ASKED):
        share = LAYERED_ERROR if computed.layers else ERROR
        options["error"] = share * (float(np.abs(computed(rows)).max()) or 1.0)
    planned = _layered if computed.layers else _product
    return EncryptedModel(model, computed, planned(computed, rows, count, bound, options), count)


def _like(rows: Any, **options: Any) -> Operand:
    """The operand of rows, with a power of two for each feature."""
    return secret.like(rows, columns=True, dtype=np.float64, **options)


def _product(computed: Computed, rows: Any, count: int, bound: Any, options: dict[str, Any]) -> Program:
    """One product and a sum; of k-means, then distances."""
    like = _like(rows, **({} if bound is None else {"bound": bound}))

    def scores(x: Expression) -> Expression:
        identity = np.array_equal(computed.matrix, np.eye(len(computed.matrix)))
        found: Any = x if identity else x @ computed.matrix
        found = found + computed.offset if computed.offset.any() else found
        return found if computed.centres is None else distances(found, computed.centres)  # type: ignore[no-any-return]

    return compile(scores, {OPERAND: replace(like, shape=(count, rows.shape[1]))}, **options)


def _layered(computed: Computed, rows: Any, count: int, bound: Any, options: dict[str, Any]) -> Program:
    """The layers of an MLP, the first product among them, planned by samples."""
    if bound is None:
        bound = columns(_like(rows).columns or ())
    layers: list[Layer] = [Dense(computed.matrix.T, computed.offset), *computed.layers]
    steps: list[NetworkStep] = []
    shape: tuple[int, ...] = (rows.shape[1],)
    for number, layer in enumerate(layers):
        shape = layer.shape(shape)
        steps.append(NetworkStep(f"layer{number}", layer, (number,), shape))
    network = TrainedNetwork((rows.shape[1],), tuple(steps))
    return network.compile(rows, bound=bound, batch=count, **options)
