"""Recommendations from encrypted ratings and an encrypted model: the server sees neither tastes nor model.

Ratings of 1500 users for 300 known items are multiplied by a model that predicts 1500 new items from them, 300×1500,
both encrypted. The client ranks the decrypted scores: comparisons are not computed under encryption. Ratings are drawn
from hidden tastes, with noise, and the model is learnt in the clear from other users.

    python examples/recommender.py --plot recommender.png
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import cipherblas as cb

Matrix = NDArray[np.float64]
TASTES, NOISE, TOP = 12, 0.3, 10


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, default=1500, metavar="N", help="users to recommend to (1500)")
    parser.add_argument(
        "--known", type=int, default=300, metavar="N", help="items that they have rated (300)"
    )
    parser.add_argument("--items", type=int, default=1500, metavar="N", help="items to choose from (1500)")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="write a picture (needs matplotlib)")
    options = parser.parse_args(arguments)
    random = np.random.default_rng(7)
    ratings, liked = drawn(random, options.users, options.known, options.items)
    model = learnt(*drawn(random, 4 * options.users, options.known, options.items))
    scores = encrypted_scores(ratings, model)
    exact = ratings @ model
    found, expected = top(scores), top(exact)
    same = np.mean([len(set(a) & set(b)) for a, b in zip(found, expected, strict=True)]) / TOP
    good = np.mean(np.take_along_axis(liked, found, axis=1)) - liked.mean()
    span = f"scores from {exact.min():.1f} to {exact.max():.1f}"
    print(f"largest error of a score {np.abs(scores - exact).max():.1e}, {span}")
    print(f"of the {TOP} best items of each user {100 * same:.2f} % are those of NumPy")
    print(f"users like them {good:.2f} more than an item on average")
    if options.plot is not None:
        draw(options.plot, scores, exact, liked)
        print(f"wrote {options.plot}")
    return 0


def drawn(random: np.random.Generator, users: int, known: int, items: int) -> tuple[Matrix, Matrix]:
    """Ratings of known items and how much the users would like the others, all from -1 to 1."""
    style = np.random.default_rng(3).normal(size=(TASTES, known + items)) / np.sqrt(TASTES)
    opinions = np.tanh(random.normal(size=(users, TASTES)) @ style)
    noisy = np.clip(opinions[:, :known] + NOISE * random.normal(size=(users, known)), -1, 1)
    return np.rint(noisy * 2) / 2, opinions[:, known:]


def learnt(ratings: Matrix, liked: Matrix) -> Matrix:
    """The model: how much each known rating says about each new item (ridge regression)."""
    gram = ratings.T @ ratings + len(ratings) / 100 * np.eye(ratings.shape[1])
    return np.linalg.solve(gram, ratings.T @ liked)


def encrypted_scores(ratings: Matrix, model: Matrix) -> Matrix:
    """ratings @ model by a server that has both encrypted."""
    operands = {
        "ratings": cb.secret(*ratings.shape),
        "model": cb.secret(*model.shape, bound=float(np.abs(model).max())),
    }
    program = cb.compile(lambda ratings, model: ratings @ model, operands, error=1e-3)
    client = program.client()
    server = program.server(client.evaluation_keys())
    started = time.perf_counter()
    scores: Matrix = client.decrypt(server.run(client.encrypt({"ratings": ratings, "model": model})))
    seconds = time.perf_counter() - started
    print(
        f"{program.plan.algorithm}: {seconds:.2f} s from end to end, {server.last.seconds:.2f} s on the server"
    )
    return scores


def top(scores: Matrix) -> NDArray[np.int64]:
    """The best items of each user, best first."""
    return np.argsort(-scores, axis=1)[:, :TOP]


def draw(path: Path, scores: Matrix, exact: Matrix, liked: Matrix) -> None:
    """How much users like the items they are recommended, by rank, encrypted and in the clear."""
    from cipherblas.report.figures import new_figure, save_png

    figure = new_figure(9, 5)
    axis = figure.subplots()
    ranks = np.arange(1, TOP + 1)
    for found, style, label in ((exact, "o-", "NumPy"), (scores, "x--", "encrypted")):
        axis.plot(ranks, np.take_along_axis(liked, top(found), axis=1).mean(axis=0), style, label=label)
    axis.axhline(liked.mean(), color="gray", linewidth=0.8, label="an item on average")
    axis.set(
        title=f"{len(scores)} users, {liked.shape[1]} items",
        xlabel="rank of the recommendation",
        ylabel="liked",
    )
    axis.legend()
    save_png(path, figure)


if __name__ == "__main__":
    raise SystemExit(main())
