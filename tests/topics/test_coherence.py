"""Coherence equals its definition, computed window by window in plain Python."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from weald.exceptions import DataError, ParameterError
from weald.topics import Corpus, coherence

WORDS = ["tea", "milk", "cup", "car", "road", "fuel", "moon"]
TOP = np.array([[0, 1, 2], [5, 3, 4]])


def texts_of(n: int, longest: int, rng: np.random.Generator) -> list[list[str]]:
    weights = rng.dirichlet(np.ones(len(WORDS)), size=n)
    return [[WORDS[w] for w in rng.choice(len(WORDS), rng.integers(1, longest), p=p)] for p in weights]


def windows_of(texts: list[list[str]], width: float) -> list[set[str]]:
    whole = [max(len(text), 1) if width == math.inf else width for text in texts]
    return [
        set(text[a : a + n]) for text, n in zip(texts, whole, strict=True) for a in range(max(len(text) - n, 0) + 1)
    ]


def npmi(i: str, j: str, windows: list[set[str]]) -> float:
    p_i, p_j, p_ij = (np.mean([held <= window for window in windows]) for held in ({i}, {j}, {i, j}))
    return math.log((p_ij + 1e-12) / (p_i * p_j)) / -math.log(p_ij + 1e-12)


def by_definition(top: list[str], windows: list[set[str]], measure: str) -> float:
    if measure == "npmi":
        return float(np.mean([npmi(i, j, windows) for i, j in combinations(top, 2)]))
    v = np.array([[npmi(i, j, windows) for j in top] for i in top])
    whole = v.sum(axis=0)
    return float(np.mean([x @ whole / np.linalg.norm(x) / np.linalg.norm(whole) for x in v]))


@pytest.mark.parametrize("measure", ["npmi", "c_v"])
@pytest.mark.parametrize("longest", [8, 40, 200])
def test_sliding_windows_are_those_of_the_definition(measure, longest, rng):
    texts = texts_of(25, longest, rng)
    windows = windows_of(texts, coherence.WIDTHS[measure])
    found = coherence.sliding(iter(texts), WORDS, TOP, measure)
    assert found.n_windows == len(windows)
    wanted = [[[sum({WORDS[i], WORDS[j]} <= w for w in windows) for j in row] for i in row] for row in TOP]
    np.testing.assert_array_equal(found.n_pair, wanted)
    exact = [by_definition([WORDS[w] for w in row], windows, measure) for row in TOP]
    np.testing.assert_allclose(coherence.measured(found, TOP, measure), exact, atol=1e-12)


@pytest.mark.parametrize("measure", ["npmi", "c_v"])
def test_documents_are_windows(measure, rng):
    texts = texts_of(40, 12, rng)
    X = np.array([[text.count(word) for word in WORDS] for text in [*texts, []]])
    indptr = np.append(0, np.cumsum((X > 0).sum(axis=1)))
    corpus = Corpus(indptr, np.nonzero(X)[1].astype(np.int32), X[X > 0], len(WORDS))
    found = coherence.measured(coherence.documents(corpus, TOP), TOP, measure)
    windows = windows_of(texts, math.inf)
    np.testing.assert_allclose(found, [by_definition([WORDS[w] for w in row], windows, measure) for row in TOP])


def test_words_shared_by_topics_and_left_out_of_the_vocabulary(rng):
    top = np.array([[0, 1], [1, 0], [1, 3]])
    texts = [
        [word for pair in zip(text, ["the"] * len(text), strict=True) for word in pair]
        for text in texts_of(20, 30, rng)
    ]
    windows = windows_of(texts, 10)
    found = coherence.measured(coherence.sliding(texts, WORDS, top, "npmi"), top, "npmi")
    np.testing.assert_allclose(found, [by_definition([WORDS[w] for w in row], windows, "npmi") for row in top])
    assert found[0] == found[1]


def test_a_small_case_by_hand():
    texts = [["tea", "milk"], ["milk", "tea"], ["car"], ["road"]]
    windows = coherence.sliding(texts, WORDS, np.array([[0, 1], [3, 4]]), "npmi")
    together, apart = coherence.measured(windows, np.array([[0, 1], [3, 4]]), "npmi")
    assert together == pytest.approx(1, abs=1e-9)  # p_i = p_j = p_ij = 1/2
    assert apart == pytest.approx(math.log(1e-12 / (1 / 16)) / -math.log(1e-12))


def test_words_that_say_nothing():
    texts = [["tea", "milk"], ["tea", "milk"], ["tea", "milk", "car"]]
    top = np.array([[0, 1], [0, 6], [0, 3]])
    for measure in ("npmi", "c_v"):
        windows = coherence.sliding(texts, WORDS, top, measure)
        np.testing.assert_array_equal(coherence.pairwise(windows)[:2, 0, 1], 0)
        assert np.isfinite(coherence.measured(windows, top, measure)).all()


def test_texts_that_cannot_be_measured():
    with pytest.raises(DataError, match="no text holds a top word"):
        coherence.sliding([["Tea"], []], WORDS, TOP, "npmi")
    with pytest.raises(DataError, match="got the string 'tea with milk'"):
        coherence.sliding(["tea with milk"], WORDS, TOP, "npmi")
    with pytest.raises(ParameterError, match="measure must be"):
        coherence.sliding([["tea"]], WORDS, TOP, "umass")


def test_one_word_has_no_pairs():
    windows = coherence.sliding([["tea"], ["car"]], WORDS, np.array([[0]]), "npmi")
    assert coherence.measured(windows, np.array([[0]]), "npmi") == 0


def test_top_words_by_probability_and_by_lift():
    phi = np.array([[0.5, 0.3, 0.1, 0.1, 0.0], [0.5, 0.0, 0.1, 0.1, 0.3]])
    sizes = np.array([30.0, 10.0])
    np.testing.assert_array_equal(coherence.top_words(phi, sizes, 3), [[0, 1, 2], [0, 4, 2]])
    by_lift = coherence.top_words(phi, sizes, 5, by="lift")
    marginal = (0.75 * phi[0] + 0.25 * phi[1]).clip(1e-300)
    score = phi * np.log(phi.clip(1e-300) / marginal)
    np.testing.assert_array_equal(by_lift, np.argsort(-score, axis=1, kind="stable"))
    assert by_lift[:, 0].tolist() == [1, 4]
    assert coherence.top_words(phi, sizes, 99).shape == (2, 5)
    with pytest.raises(ParameterError, match="by must be"):
        coherence.top_words(phi, sizes, 2, by="frequency")
