from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score

from weald.exceptions import DataError, ParameterError
from weald.metrics import calibration_error, coherence, held_out_log_score, purity, variation_of_information

LOG2 = np.log(2)


@pytest.mark.parametrize(
    ("true", "labels", "value"),
    [
        ([0, 0, 1, 1], [0, 0, 1, 1], 1.0),
        ([0, 0, 1, 1], [1, 1, 1, 1], 0.5),
        ([0, 0, 1, 1], [0, 1, 2, 3], 1.0),
        ([0, 0, 1, 1], [5, 5, 5, 7], 0.75),
        (["a", "b", "b"], [True, True, True], 2 / 3),
        ([-1], [9], 1.0),
    ],
)
def test_purity_by_hand(true, labels, value):
    assert purity(true, labels) == pytest.approx(value, abs=1e-15)


@pytest.mark.parametrize(
    ("a", "b", "value"),
    [
        ([0, 0, 1, 1], [0, 0, 0, 0], LOG2),
        ([0, 0, 1, 1], [0, 1, 0, 1], 2 * LOG2),
        ([0, 0, 1, 1], [0, 1, 2, 3], LOG2),
        ([0, 1, 2, 3], [0, 0, 0, 0], 2 * LOG2),
        ([0, 0, 1], ["x", "x", "y"], 0.0),
        ([3], [4], 0.0),
    ],
)
def test_variation_of_information_by_hand(a, b, value):
    assert variation_of_information(a, b) == pytest.approx(value, abs=1e-15)


triples = st.integers(1, 12).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-2, 4), min_size=n, max_size=n).map(np.array)] * 3)
)


@given(triples)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_variation_of_information_is_a_metric(abc):
    a, b, c = abc
    ab = variation_of_information(a, b)
    assert variation_of_information(a, a) == 0
    assert ab == pytest.approx(variation_of_information(b, a), abs=1e-14)
    assert 0 <= ab <= np.log(len(a)) + 1e-14
    assert ab <= variation_of_information(a, c) + variation_of_information(c, b) + 1e-12
    same = all((a[i] == a[j]) == (b[i] == b[j]) for i, j in product(range(len(a)), repeat=2))
    assert (ab == 0) == same


@given(triples, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_names_and_order_do_not_matter(abc, random):
    a, b, _ = abc
    names, order = list(range(-2, 5)), list(range(len(a)))
    random.shuffle(names)
    random.shuffle(order)
    renamed = np.array([names[v + 2] for v in a])
    for metric in (purity, variation_of_information):
        assert metric(renamed[order], b[order]) == pytest.approx(metric(a, b), abs=1e-14)


def test_variation_of_information_from_mutual_information():
    a, b = np.random.default_rng(0).integers(0, 7, (2, 400))
    entropies = mutual_info_score(a, a) + mutual_info_score(b, b)
    assert variation_of_information(a, b) == pytest.approx(entropies - 2 * mutual_info_score(a, b), rel=1e-12)


@pytest.mark.parametrize(("a", "b"), [([], []), ([0, 1], [0]), ([[0, 1]], [[0, 1]])])
@pytest.mark.parametrize("metric", [purity, variation_of_information])
def test_wrong_labels(metric, a, b):
    with pytest.raises(DataError):
        metric(a, b)


def test_held_out_log_score():
    model = SimpleNamespace(score_samples=lambda X: -np.asarray(X)[:, 0])
    assert held_out_log_score(model, np.array([[1.0], [2.0], [6.0]])) == -3
    with pytest.raises(DataError, match="no rows"):
        held_out_log_score(model, np.empty((0, 1)))


@pytest.mark.parametrize(
    ("proba", "y", "n_bins", "value"),
    [
        ([1.0, 0.0, 1.0], [1, 0, 1], 10, 0.0),
        ([1.0, 0.0], [0, 1], 10, 1.0),
        ([0.25] * 4, [0, 0, 0, 1], 10, 0.0),
        ([0.25] * 4, [1, 1, 1, 1], 10, 0.75),
        ([0.2, 0.2, 0.9], [0, 0, 1], 10, (0.4 + 0.1) / 3),
        ([0.2, 0.8], [0, 1], 1, 0.0),
        ([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], [0, 1], 10, (0.5 + 0.8) / 2),
        ([[0.6, 0.4], [0.6, 0.4]], [0, 1], 10, 0.1),
    ],
)
def test_calibration_error_by_hand(proba, y, n_bins, value):
    assert calibration_error(proba, y, n_bins) == pytest.approx(value, abs=1e-15)


def test_calibration_error_tells_honest_from_boastful():
    rng = np.random.default_rng(0)
    p = rng.random(20000)
    y = rng.random(20000) < p
    assert calibration_error(p, y) < 0.02
    assert calibration_error(p**0.3, y) > 0.2


@pytest.mark.parametrize(
    ("proba", "y"),
    [
        ([0.5], [0, 1]),
        ([], []),
        ([1.5], [1]),
        ([np.nan], [1]),
        ([0.5], [2]),
        ([[0.5, 0.5]], [2]),
        ([[0.5, 0.5]], ["a"]),
        (np.zeros((1, 1, 1)), [0]),
    ],
)
def test_calibration_error_wrong_input(proba, y):
    with pytest.raises(DataError):
        calibration_error(proba, y)


def test_calibration_error_wrong_bins():
    with pytest.raises(ParameterError, match="n_bins"):
        calibration_error([0.5], [1], n_bins=0)


@pytest.mark.parametrize("measure", ["npmi", "c_v"])
def test_coherence_of_the_words_of_any_model(measure):
    texts = [["tea", "with", "milk"], ["milk", "tea"], ["car", "road"], ["road", "tea"]]
    together, apart = coherence([["milk", "tea"], ["car", "tea"]], iter(texts), measure=measure)
    assert together > apart
    if measure == "npmi":
        assert together == pytest.approx(np.log(0.5 / (0.5 * 0.75)) / -np.log(0.5))
        assert apart == pytest.approx(np.log(1e-12 / (0.25 * 0.75)) / -np.log(1e-12))


@pytest.mark.parametrize("topics", [[], [[]], [["tea"], ["tea", "milk"]]])
def test_coherence_wrong_topics(topics):
    with pytest.raises(DataError, match="lists of words, equally long"):
        coherence(topics, [["tea"]])
