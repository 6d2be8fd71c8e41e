"""Models of scikit-learn, encrypted: what scikit-learn says of its own data sets."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.sklearn.models import read

pytest.importorskip("sklearn")
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC, LinearSVR

from sklearn import cluster, datasets, decomposition, feature_selection, linear_model, neural_network
from sklearn import preprocessing as scaling

IRIS, WINE = datasets.load_iris(return_X_y=True), datasets.load_wine(return_X_y=True)
DIABETES, CANCER = datasets.load_diabetes(return_X_y=True), datasets.load_breast_cancer(return_X_y=True)
MODELS: dict[str, tuple[Any, Any]] = {
    "logistic": (linear_model.LogisticRegression(max_iter=2000), IRIS),
    "logistic of two classes": (
        make_pipeline(scaling.StandardScaler(), linear_model.LogisticRegression()),
        CANCER,
    ),
    "ridge": (linear_model.Ridge(), DIABETES),
    "least squares of two outputs": (
        linear_model.LinearRegression(),
        (DIABETES[0], np.stack([DIABETES[1]] * 2, 1)),
    ),
    "lasso": (make_pipeline(scaling.MinMaxScaler(), linear_model.Lasso(alpha=0.1)), DIABETES),
    "ridge classifier": (make_pipeline(scaling.RobustScaler(), linear_model.RidgeClassifier()), WINE),
    "SGD": (
        make_pipeline(scaling.StandardScaler(), linear_model.SGDClassifier(loss="log_loss", random_state=0)),
        WINE,
    ),
    "linear SVM": (make_pipeline(scaling.StandardScaler(), LinearSVC(dual=False)), WINE),
    "linear SVR": (LinearSVR(dual=True, max_iter=20000, random_state=0), DIABETES),
    "SVC of two classes": (make_pipeline(scaling.StandardScaler(), SVC(kernel="linear")), CANCER),
    "discriminant analysis": (LinearDiscriminantAnalysis(solver="eigen"), IRIS),
    "PCA": (decomposition.PCA(3, whiten=True), WINE),
    "scaler": (scaling.StandardScaler(), WINE),
    "parts in a pipeline": (
        make_pipeline(
            scaling.MaxAbsScaler(),
            feature_selection.SelectKBest(k=8),
            "passthrough",
            make_pipeline(decomposition.TruncatedSVD(4, algorithm="arpack")),
            linear_model.LogisticRegression(),
        ),
        WINE,
    ),
    "k-means": (make_pipeline(scaling.StandardScaler(), cluster.KMeans(3, n_init=2, random_state=0)), WINE),
    "k-means alone": (cluster.MiniBatchKMeans(3, n_init=2, random_state=0), IRIS),
}
NETWORKS: dict[str, tuple[Any, Any]] = {
    "MLP": (
        make_pipeline(
            scaling.StandardScaler(), neural_network.MLPClassifier((8,), max_iter=1000, random_state=0)
        ),
        IRIS,
    ),
    "MLP of a number": (
        make_pipeline(
            scaling.StandardScaler(),
            neural_network.MLPRegressor(
                hidden_layer_sizes=(6, 4), activation="tanh", max_iter=800, random_state=0
            ),
        ),
        (DIABETES[0], DIABETES[1] / 100),
    ),
}
ROWS = 24


def rows_of(data: Any) -> Any:
    return data[0][:: max(1, len(data[0]) // ROWS)]


@pytest.mark.parametrize("name", MODELS)
def test_scores_in_the_clear(name: str) -> None:
    """What is encrypted, and what the client makes of it, without encryption."""
    model, data = MODELS[name]
    model.fit(*data)
    found = read(model, data[0])
    for method, finish in found.methods.items():
        expected = getattr(model, method)(data[0])
        np.testing.assert_allclose(finish(found(data[0])), expected, rtol=1e-6, atol=1e-6)
    offered = {one for one in ("predict", "predict_proba", "decision_function") if hasattr(model, one)}
    assert offered <= set(found.methods) or "SVC" in name


@pytest.mark.encrypted
@pytest.mark.parametrize("name", ["logistic", "logistic of two classes", "PCA", "k-means"])
def test_encrypted_models(name: str) -> None:
    model, data = MODELS[name]
    model.fit(*data)
    X = rows_of(data)
    found = cb.sklearn.encrypted(model, data[0], batch=16)  # the last batch is not full
    near = found.program.plan.error
    np.testing.assert_allclose(found.scores(X), found.clear_scores(X), atol=near)
    if "predict" in found.methods:
        np.testing.assert_array_equal(found.predict(X), model.predict(X))
    if "predict_proba" in found.methods:
        np.testing.assert_allclose(found.predict_proba(X), model.predict_proba(X), atol=near)


@pytest.mark.encrypted
@pytest.mark.parametrize("name", NETWORKS)
def test_encrypted_networks(name: str) -> None:
    model, data = NETWORKS[name]
    model.fit(*data)
    X = rows_of(data)
    found = cb.sklearn.encrypted(model, data[0], batch=ROWS, error=0.3)
    expected = model.predict(X)
    bounds = np.array(found.program.operands["x"].columns)  # powers of two, which tell no entry
    assert (np.frexp(bounds)[0] == 0.5).all() and (np.abs(data[0]).max(axis=0) <= bounds).all()
    np.testing.assert_allclose(found.finish(found.clear_scores(X)), expected)
    scores = found.scores(X)
    assert np.abs(scores - found.clear_scores(X)).max() <= found.program.plan.error
    if "predict_proba" in found.methods:
        agreeing = (found.finish(scores) == expected).mean()
        assert agreeing >= 0.9
        np.testing.assert_allclose(
            found.finish(found.clear_scores(X), "predict_proba"), model.predict_proba(X), atol=1e-9
        )


@pytest.mark.encrypted
def test_between_two_machines(tmp_path: Any) -> None:
    """The program in a file, a client that has no model, and scores that the client finishes."""
    model = linear_model.LogisticRegression(max_iter=2000).fit(*IRIS)
    found = cb.sklearn.encrypted(model, IRIS[0], batch=8)
    found.program.save(tmp_path / "program")
    program = cb.Program.load(tmp_path / "program")
    client = program.client()
    scores = client.decrypt(program.server(client.evaluation_keys()).run(client.encrypt({"x": IRIS[0][:8]})))
    np.testing.assert_array_equal(found.finish(scores), model.predict(IRIS[0][:8]))


def test_what_is_refused() -> None:
    X, y = IRIS
    forest = RandomForestClassifier(3).fit(X, y)
    refusals: list[tuple[Any, Any, type[Exception], str]] = [
        (forest, X, cb.UnsupportedNodeError, "A RandomForestClassifier is not computed"),
        (
            make_pipeline(scaling.Normalizer(), LinearSVC()).fit(X, y),
            X,
            cb.UnsupportedNodeError,
            "A Normalizer",
        ),
        (scaling.MinMaxScaler(clip=True).fit(X), X, cb.UnsupportedNodeError, "A MinMaxScaler"),
        (SVC(kernel="linear").fit(X, y), X, cb.UnsupportedNodeError, "support vector|A SVC"),
        (SVC().fit(X, y), X, cb.UnsupportedNodeError, "A SVC"),
        (linear_model.PoissonRegressor().fit(X, y), X, cb.UnsupportedNodeError, "A PoissonRegressor"),
        (cluster.BisectingKMeans(3).fit(X), X, cb.UnsupportedNodeError, "follows a tree of centres"),
        (
            linear_model.SGDOneClassSVM(nu=0.01).fit(X),
            X,
            cb.UnsupportedNodeError,
            "compares scores with a limit",
        ),
        (linear_model.Ridge(), X, cb.ParameterError, "The Ridge is not fitted"),
        (make_pipeline("passthrough").fit(X), X, cb.UnsupportedNodeError, "no step"),
        ("ridge", X, cb.DTypeError, "Only fitted models of scikit-learn"),
        (linear_model.Ridge().fit(X, y), X[:, :2], cb.ShapeError, "another number of features"),
        (linear_model.Ridge().fit(X, y), X[0], cb.ShapeError, "a matrix"),
        (linear_model.Ridge().fit(X, y), X * np.nan, cb.RangeError, "NaN"),
    ]
    for model, rows, error, says in refusals:
        with pytest.raises(error, match=says):
            cb.sklearn.encrypted(model, rows)
    with pytest.raises(cb.ShapeError, match="one row or more"):
        cb.sklearn.encrypted(linear_model.Ridge().fit(X, y), X, batch=0)
    found = cb.sklearn.encrypted(linear_model.Ridge().fit(X, y), X, batch=4)
    with pytest.raises(cb.ParameterError, match="has no method of that name"):
        found.predict_proba(X)
    with pytest.raises(cb.RangeError):
        found.predict(100 * X)
    with pytest.raises(cb.ShapeError, match="another number of features"):
        found.predict(X[:, :3])
    assert repr(found) == "<Encrypted Ridge: predict>"


class Table:
    """As tables of other libraries: named columns, and an array of them."""

    def __init__(self, names: str) -> None:
        self.columns = list(names)

    def __array__(self, *_: Any, **__: Any) -> Any:
        return np.asarray(IRIS[0])


def test_columns_in_another_order_are_refused() -> None:
    model = linear_model.Ridge().fit(*IRIS)
    model.feature_names_in_ = np.array(list("abcd"), object)
    with pytest.raises(cb.ParameterError, match="or in another order"):
        cb.sklearn.encrypted(model, Table("abdc"))
    found = cb.sklearn.encrypted(model, Table("abcd"), batch=4)
    with pytest.raises(cb.ParameterError, match="or in another order"):
        found.predict(Table("dabc"))


def test_the_best_model_of_a_search_and_a_selection_at_the_end() -> None:
    search = GridSearchCV(linear_model.Ridge(), {"alpha": [0.1, 1.0]}, cv=2).fit(*IRIS)
    found = read(search, IRIS[0])
    np.testing.assert_allclose(found.methods["predict"](found(IRIS[0])), search.predict(IRIS[0]))
    selection = feature_selection.RFE(linear_model.Ridge(), n_features_to_select=2).fit(*IRIS)
    chosen = read(selection, IRIS[0])
    np.testing.assert_allclose(chosen(IRIS[0]), selection.transform(IRIS[0]))
    assert list(chosen.methods) == ["transform"]


def test_names_of_columns_are_left_out() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(IRIS[0], columns=list("abcd"))
    model = make_pipeline(scaling.StandardScaler(), linear_model.RidgeClassifier()).fit(table, IRIS[1])
    found = cb.sklearn.encrypted(model, table, batch=4)
    np.testing.assert_array_equal(found.finish(found.clear_scores(table)), model.predict(table))


def test_scikit_learn_is_imported_by_its_models_alone() -> None:
    code = "import sys, cipherblas as cb; cb.sklearn.encrypted; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(cb.ParameterError, match="The package scikit-learn is not installed"):
        cb.sklearn.encrypted(linear_model.Ridge(), IRIS[0])
