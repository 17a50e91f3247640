import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from weald.assign import _softmax
from weald.testing.invariance import BUDGET, chi_square

DTYPES = [np.float32, np.float64]


def padded(scores, dtype):
    out = np.full((scores.shape[0], -(-scores.shape[1] // 64) * 64), -np.inf, dtype)
    out[:, : scores.shape[1]] = scores
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("K", [1, 5, 64, 65, 300])
@pytest.mark.parametrize("spread", [0.1, 10.0, 1e4])
def test_normalise_is_softmax(rng, dtype, K, spread):
    scores = (rng.normal(size=(50, K)) * spread).astype(dtype)
    R, norms = padded(scores, dtype), np.empty(50)
    _softmax.normalise(R, norms)
    exact = scores.astype(np.float64)
    tolerance = 3e-7 if dtype == np.float32 else 1e-14
    assert np.allclose(R[:, :K], softmax(exact, axis=1), rtol=0, atol=tolerance)
    assert np.allclose(norms, logsumexp(exact, axis=1), rtol=1e-7 if dtype == np.float32 else 1e-14, atol=tolerance)
    assert not R[:, K:].any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_draws_follow_the_softmax(dtype):
    """Columns chosen so that several share a lane, several share a group, and one lies 36 nats down."""
    columns = np.array([0, 1, 63, 64, 65, 128, 190])
    log_p = np.log([0.3, 0.05, 0.2, 0.15, 0.1, 0.199, 0.001])
    row = np.full((1, 192), -np.inf, dtype)
    row[0, columns] = log_p + 500.0
    row[0, 100] = 500.0 - 36.0
    n = 100_000
    z, norms = np.empty(n, np.int32), np.empty(n)
    _softmax.draw(np.repeat(row, n, axis=0), np.uint64(11), np.arange(n), z, norms)
    counts = np.array([(z == c).sum() for c in columns])
    assert counts.sum() == n
    assert chi_square(counts, np.exp(log_p)) > BUDGET
    assert chi_square(counts, np.roll(np.exp(log_p), 1)) < BUDGET


@pytest.mark.parametrize("dtype", DTYPES)
def test_groups_far_below_the_maximum_are_never_exponentiated(dtype):
    scores = np.full((1, 640), -100.0, dtype)
    scores[0, 5] = 0.0
    scores[0, 70] = -36.0
    assert _softmax.draw(scores, np.uint64(1), np.arange(1), np.empty(1, np.int32), np.empty(1)) == 128


@pytest.mark.parametrize("dtype", DTYPES)
def test_known_labels_are_kept(rng, dtype):
    scores = padded(rng.normal(size=(200, 70)), dtype)
    known = rng.integers(-1, 70, size=200).astype(np.int32)
    joint = scores[np.arange(200), known].copy()
    _softmax.clamp(scores, known)
    z, norms = np.empty(200, np.int32), np.empty(200)
    _softmax.draw(scores, np.uint64(2), np.arange(200), z, norms)
    assert np.array_equal(z[known >= 0], known[known >= 0])
    assert np.allclose(norms[known >= 0], joint[known >= 0])


def test_extreme_scores_stay_in_range(rng):
    for scores in (np.full((3, 64), -1e30), np.full((3, 64), 1e30), np.zeros((3, 64))):
        z, norms = np.full(3, -7, np.int32), np.empty(3)
        _softmax.draw(scores.astype(np.float64), np.uint64(1), np.arange(3), z, norms)
        assert ((z >= 0) & (z < 64)).all()
        assert np.allclose(norms, scores[:, 0] + np.log(64))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("K", [1, 5, 64, 130])
def test_best_is_the_first_largest(rng, dtype, K):
    scores = rng.integers(-3, 4, size=(200, K)).astype(dtype)
    z = np.empty(200, np.int64)
    _softmax.best(padded(scores, dtype), z)
    assert np.array_equal(z, np.argmax(scores, axis=1))
