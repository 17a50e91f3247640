"""Supervised LDA on ratings of reviews: does it pay to learn topics and response together?

    data      scale data of Pang & Lee (2005): 5,006 film reviews with ratings in [0, 1]
    words     of letters, at least 25 reviews, at most a quarter of them, English stop words left out
    rivals    topics first, then ridge regression on their proportions (weald.LDA); the mean rating; tomotopy's SLDA
    beside    ridge regression on the words themselves (tf-idf), which has 4,000 coefficients and no topics

Five folds; R^2 of held-out reviews, CPU seconds of fit and prediction, and how often the 95 % interval of SupervisedLDA
holds the rating. Data are looked for in --data, $WEALD_DATA, or `shared/data` beside the checkout.

    python -m benchmarks.topics_supervised [--data FOLDER] [--topics 20] [--folds 5]

Takes about 15 minutes on a quiet core.
"""

from __future__ import annotations

import argparse
import csv
import io
import lzma
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import RidgeCV
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline

import weald
from benchmarks import harness

DATA = Path(os.environ.get("WEALD_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
REVIEWS = Path("sentiment") / "scaledata.csv.xz"
RIDGE = np.logspace(-3, 3, 13)
TOMOTOPY_SWEEPS = 1000
Predict = Callable[[Any, np.ndarray, Any], np.ndarray]  # training counts, ratings, test counts -> predictions


def reviews(folder: Path) -> tuple[list[str], np.ndarray]:
    csv.field_size_limit(10_000_000)
    with lzma.open(folder / REVIEWS, "rb") as file:
        rows = list(csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", newline="")))
    return [row["text"] for row in rows], np.array([float(row["rating"]) for row in rows])


def counter() -> CountVectorizer:
    return CountVectorizer(min_df=25, max_df=0.25, stop_words="english", token_pattern=r"(?u)\b[a-z][a-z]+\b")


def by_mean(X: Any, y: np.ndarray, T: Any) -> np.ndarray:
    return np.full(T.shape[0], y.mean())


def by_topics_then_ridge(K: int, inference: Any) -> Predict:
    def predict(X: Any, y: np.ndarray, T: Any) -> np.ndarray:
        lda = weald.LDA(K, inference=inference, n_jobs=1, random_state=0).fit(X)
        return np.asarray(RidgeCV(RIDGE).fit(lda.transform(X), y).predict(lda.transform(T)))

    return predict


def by_words(X: Any, y: np.ndarray, T: Any) -> np.ndarray:
    return np.asarray(make_pipeline(TfidfTransformer(sublinear_tf=True), RidgeCV(RIDGE)).fit(X, y).predict(T))


def by_supervised_topics(K: int, covered: list[float], test_y: Callable[[], np.ndarray]) -> Predict:
    def predict(X: Any, y: np.ndarray, T: Any) -> np.ndarray:
        slda = weald.SupervisedLDA(K, n_jobs=1, random_state=0).fit(X, y)
        mean, sd = slda.predict(T, return_std=True)
        covered.append(float(np.mean(np.abs(mean - test_y()) < 1.96 * sd)))
        return np.asarray(mean)

    return predict


def by_tomotopy(K: int) -> Predict:
    def predict(X: Any, y: np.ndarray, T: Any) -> np.ndarray:
        import tomotopy as tp

        model = tp.SLDAModel(k=K, vars="l", seed=1)
        for words, rating in zip(_words(X), (y - y.mean()) / y.std(), strict=True):
            model.add_doc(words, y=[float(rating)])
        model.train(TOMOTOPY_SWEEPS, workers=1)
        new = [model.make_doc(words) for words in _words(T)]
        model.infer(new, workers=1)
        return y.mean() + y.std() * np.array([model.estimate(doc)[0] for doc in new])

    return predict


def _words(X: Any) -> list[list[str]]:
    names = np.array([f"w{j}" for j in range(X.shape[1])])
    return [np.repeat(names[row.indices], row.data).tolist() for row in X]


def has_tomotopy() -> bool:
    try:
        import tomotopy  # noqa: F401
    except ImportError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.topics_supervised")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--without", nargs="*", default=[], help="rows to leave out")
    chosen = parser.parse_args()
    if not (chosen.data / REVIEWS).exists():
        raise SystemExit(f"skipped: no {REVIEWS} in {chosen.data}; give --data or set WEALD_DATA")
    warnings.simplefilter("ignore")  # chains of topics that disagree are known; their predictions are averaged
    texts, y = reviews(chosen.data)
    K, covered, test = chosen.topics, [], np.empty(0)
    methods: dict[str, Predict] = {
        "mean": by_mean,
        "LDA (gibbs) + ridge": by_topics_then_ridge(K, "gibbs"),
        "LDA (online-vb) + ridge": by_topics_then_ridge(K, "online-vb"),
        "SupervisedLDA": by_supervised_topics(K, covered, lambda: test),
        **({"tomotopy SLDA": by_tomotopy(K)} if has_tomotopy() else {}),
        "ridge on words": by_words,
    }
    methods = {name: predict for name, predict in methods.items() if name not in chosen.without}
    errors, seconds = ({name: [] for name in methods} for _ in range(2))
    spread = []
    for train, held_out in KFold(chosen.folds, shuffle=True, random_state=0).split(y):
        count = counter()
        X, test = count.fit_transform([texts[i] for i in train]), y[held_out]
        T = count.transform([texts[i] for i in held_out])
        spread.append(test.var())
        for name, predict in methods.items():
            started = time.process_time()
            errors[name].append(mean_squared_error(test, predict(X, y[train], T)))
            seconds[name].append(time.process_time() - started)
            print(f"fold {len(spread)}: {name}: R^2 {1 - errors[name][-1] / spread[-1]:.3f}", flush=True)
    packages = ("scikit-learn", "numba", *(["tomotopy"] if has_tomotopy() else []))
    harness.heading(f"Ratings of {len(y):,} reviews, {X.shape[1]:,} words, {K} topics, {chosen.folds} folds", packages)
    rows = [_row(name, np.array(errors[name]), np.array(spread), seconds[name]) for name in methods]
    harness.table(("method", "R^2", "sd over folds", "MSE", "CPU s / fold"), rows)
    print(f"\n95 % intervals of SupervisedLDA hold {np.mean(covered):.1%} of held-out ratings")
    ours = np.array(errors["SupervisedLDA"])
    due = [
        harness.Claim(f"MSE, SupervisedLDA / {name}, worst fold", float(np.max(ours / errors[name])), 1.0)
        for name in methods
        if name == "mean" or name.startswith("LDA")
    ]
    harness.conclude([*due, harness.Claim("|95 % - coverage|", abs(0.95 - float(np.mean(covered))), 0.03)])


def _row(name: str, errors: np.ndarray, spread: np.ndarray, seconds: list[float]) -> tuple[object, ...]:
    r2 = 1 - errors / spread
    return name, f"{r2.mean():.3f}", f"{r2.std():.3f}", f"{errors.mean():.5f}", f"{np.mean(seconds):.1f}"


if __name__ == "__main__":
    main()
