import numpy as np
import pytest

import weald
from weald.exceptions import DataError, ParameterError
from weald.testing.invariance import BUDGET, chi_square
from weald.trees.alias import build_rows, draw_rows, law


def laws():
    rng = np.random.default_rng(1)
    spiky = np.zeros(1000)
    spiky[::7] = rng.exponential(size=143)
    return {
        "one entry": np.array([0.3]),
        "uniform": np.full(10, 0.1),
        "uniform, not a binary fraction": np.full(49, 1 / 49),
        "zeros": spiky,
        "all but one zero": np.eye(1, 6, 4)[0],
        "unnormalised": 1e3 * rng.random(77),
        "halves": np.array([1.0, 2.0, 3.0, 2.0, 1.0, 3.0]),
        "huge": np.array([1e308, 1.5e308, 0.5e308]),
        "denormal": np.array([5e-324, 1e-323, 0.0, 2e-323]),
        "powers": 2.0 ** -np.arange(60),
        "float32": rng.random(33).astype(np.float32),
        "integers": np.array([1, 2, 3]),
        "million": rng.gamma(0.3, size=1_000_000),
    }


def normal(p):
    p = np.asarray(p, np.float64) / np.max(p)
    return p / p.sum(axis=-1, keepdims=True)


def error(found, p):
    """Largest error in units of what a column holds, or of the outcome's own probability where that is more."""
    p = normal(p)
    return np.max(np.abs(found - p) / np.maximum(p, 1 / p.shape[-1]))


def table64(p):
    P = np.atleast_2d(np.asarray(p, np.float64))
    threshold, alias = np.empty(P.shape), np.empty(P.shape, np.int32)
    build_rows(P, threshold, alias)
    return threshold, alias


@pytest.mark.parametrize("name", laws())
def test_the_table_encodes_the_law(name):
    p = laws()[name]
    table = weald.AliasTable(p)
    assert table.threshold.dtype == np.float32
    assert table.alias.dtype == np.int32
    assert table.threshold.shape == table.alias.shape == p.shape
    assert error(table.probabilities(), p) < 1e-6
    assert not table.probabilities()[p == 0].any()
    exact = law(*table64(p))[0]
    assert np.max(np.abs(exact - normal(p))) < 1e-12
    assert error(exact, p) < 1e-13 + 1e-15 * p.size  # the weights themselves add to 1 only so far


def test_rows_are_tables(rng):
    P = rng.gamma(0.5, size=(40, 17))
    table = weald.AliasTable(P)
    assert error(table.probabilities(), P) < 1e-6
    alone = weald.AliasTable(P[23])
    assert np.array_equal(alone.threshold, table.threshold[23])
    assert np.array_equal(alone.alias, table.alias[23])
    assert np.array_equal(table.draw(np.random.default_rng(3), 50, row=23), alone.draw(np.random.default_rng(3), 50))
    rows = rng.integers(0, 40, size=(5, 30))
    z = table.draw(np.random.default_rng(4), (5, 30), row=rows)
    each = [table.draw(np.random.default_rng(4), (5, 30), row=int(i))[rows == i] for i in range(40)]
    assert all(np.array_equal(z[rows == i], part) for i, part in enumerate(each))


def counts_of(p, n, seed, draw=None):
    rng = np.random.default_rng(seed)
    z = weald.AliasTable(p).draw(rng, n) if draw is None else draw(rng, n)
    return np.bincount(z, minlength=len(p))


@pytest.mark.parametrize("name", ["one entry", "uniform", "zeros", "unnormalised", "halves", "denormal", "powers"])
def test_draws_follow_the_law(name):
    p = laws()[name]
    counts = counts_of(p, 200_000, 11)
    assert not counts[p == 0].any()
    if np.count_nonzero(p) > 1:
        assert chi_square(counts[p > 0], normal(p)[p > 0]) > BUDGET


def test_many_rows_at_once_follow_their_laws(rng):
    P = rng.gamma(0.5, size=(20, 9))
    rows = np.repeat(np.arange(20), 20_000)
    z = weald.AliasTable(P).draw(rng, rows.size, row=rows)
    counts = np.bincount(rows * 9 + z, minlength=180)
    assert chi_square(counts, normal(P).ravel() / 20) > BUDGET


def test_every_bit_pattern_counts_once():
    """The law of a draw, exactly: all 24-bit thresholds in every column."""
    p = np.array([0.05, 0.6, 0.35])
    table = weald.AliasTable(p)
    low = np.arange(0, 2**24, dtype=np.uint64)
    found = np.zeros(3)
    for k in range(3):
        high = np.uint64(-(-k * 2**32 // 3))  # the first index that falls into column k
        out = np.empty(low.size, np.int32)
        bits = (high << np.uint64(32)) | low
        draw_rows(table.threshold[None], table.alias[None], np.zeros(1, np.int64), bits, out)
        found += np.bincount(out, minlength=3) / 2**24 / 3
        before = np.empty(1, np.int32)
        draw_rows(np.ones((1, 3)), table.alias[None], np.zeros(1, np.int64), bits[:1] - np.uint64(k > 0), before)
        assert before[0] == max(k - 1, 0)
    assert error(found, p) < 1e-6


def draw_from(threshold, alias):
    def draw(rng, n):
        out = np.empty(n, np.int32)
        draw_rows(threshold, alias, np.zeros(1, np.int64), rng.integers(0, 2**64, size=n, dtype=np.uint64), out)
        return out

    return draw


def as_printed(p, low_test):
    """Appendix A to the letter: only triples are stored; what is left over is forgotten."""
    n = len(p)
    s = n * normal(p)
    S, H = [i for i in range(n) if s[i] < 1], [i for i in range(n) if s[i] >= 1]
    threshold, alias = np.zeros((1, n)), np.zeros((1, n), np.int32)
    while S and H:
        i, j = S.pop(), H[-1]
        threshold[0, i], alias[0, i] = s[i], j
        s[j] -= 1 - s[i]
        if low_test(s[j]):
            S.append(H.pop())
    return threshold, alias, S, H


@pytest.mark.parametrize("name", ["uniform", "uniform, not a binary fraction", "halves"])
def test_injected_bug_leftovers_forgotten(name):
    p = laws()[name]
    threshold, alias, _, _ = as_printed(p, lambda s: s < 1)
    assert error(law(threshold, alias)[0], p) > 1e-3
    assert chi_square(counts_of(p, 200_000, 11, draw_from(threshold, alias)), normal(p)) < BUDGET


def test_injected_bug_complete_residual_is_called_low():
    """A residual of exactly one column must stay high: called low, it waits for a partner and is forgotten."""
    p = np.array([0.5, 1.5, 1.0])  # outcome 1 is left with exactly one column
    right, wrong = as_printed(p, lambda s: s < 1), as_printed(p, lambda s: s <= 1)
    assert (right[2], wrong[2]) == ([], [1])
    for threshold, alias, _, high in (right, wrong):
        threshold[0, high], alias[0, high] = 1.0, high
    assert error(law(*right[:2])[0], p) < 1e-12
    assert error(law(*wrong[:2])[0], p) > 0.1
    assert chi_square(counts_of(p, 50_000, 5, draw_from(*wrong[:2])), normal(p)) < BUDGET


def test_injected_bug_one_float32_for_index_and_threshold():
    """All 2^24 float32 uniforms, split: ten bits of threshold remain at n = 10,000, and the law shows it."""
    n = 10_000
    p = np.random.default_rng(2).gamma(1.0, size=n)
    threshold, alias = table64(p)
    found = np.zeros(n)
    for part in np.split(np.arange(2**24), 64):
        u = part / 2**24 * n
        k = u.astype(np.int64)
        found += np.bincount(np.where(u - k < threshold[0, k], k, alias[0, k]), minlength=n)
    assert error(found / 2**24, p) > 1e-4
    assert error(weald.AliasTable(p).probabilities(), p) < 1e-6


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([0.5, -0.1], "non-negative"),
        ([[1.0, 2.0], [np.nan, 1.0]], r"nan at \(1, 0\)"),
        ([np.inf, 1.0], "finite"),
        ([0.0, 0.0], "zero everywhere"),
        ([[1.0, 0.0], [0.0, 0.0]], "row 1"),
        ([], "at least one outcome"),
        (1.0, "shape"),
        (np.ones((2, 2, 2)), "shape"),
        (["a"], "numbers"),
    ],
)
def test_bad_weights_are_refused(p, message):
    with pytest.raises(DataError, match=message):
        weald.AliasTable(p)


@pytest.mark.parametrize("row", [2, -1, 0.5, np.array([0, 1])])
def test_bad_rows_are_refused(rng, row):
    with pytest.raises(ParameterError, match="row"):
        weald.AliasTable(np.ones((2, 3))).draw(rng, 3, row=row)
