from __future__ import annotations

import warnings

import numpy as np
import pytest

from weald import diagnostics as dg
from weald.exceptions import ParameterError, Status
from weald.posterior import Posterior

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    az = pytest.importorskip("arviz")


def arviz_value(name: str, x: np.ndarray) -> float:
    """The one place that knows ArviZ's names; a (chain, draw) array works before and after ArviZ 1."""
    x = np.asarray(x, float)
    function, _, method = name.partition("_")
    options = {"method": method} if method else {}
    if method.startswith("quantile"):
        options = {"method": "quantile", "prob": float(method.removeprefix("quantile"))}
    if method == "tail":
        options["prob"] = (0.05, 0.95)  # ArviZ 1 has no default for plain arrays
    return np.ravel(getattr(az, function)(x, **options)).item()


def weald_value(name: str, x: np.ndarray) -> float:
    if name.startswith("mcse_quantile"):
        return float(dg.mcse_quantile(x, float(name.removeprefix("mcse_quantile"))))
    return float(getattr(dg, name)(x))


def ar(phi: float, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=shape)
    for t in range(1, shape[1]):
        x[:, t] += phi * x[:, t - 1]
    return x


RNG = np.random.default_rng(1)
ARRAYS = {
    "iid": RNG.normal(size=(4, 250)),
    "odd": RNG.normal(size=(3, 101)),
    "cauchy": RNG.standard_cauchy(size=(4, 300)),
    "ar": ar(0.9, (4, 500)),
    "sticky": ar(0.999, (2, 400)),
    "antithetic": ar(-0.9, (4, 333)),
    "alternating": np.tile([[1.0, -1.0]], (2, 50)) + 1e-3 * RNG.normal(size=(2, 100)),
    "shifted chain": RNG.normal(size=(4, 200)) + np.array([[0.0], [0], [0], [3]]),
    "scaled chain": RNG.normal(size=(4, 200)) * np.array([[1.0], [1], [1], [9]]),
    "one constant chain": np.vstack([np.full((1, 100), 0.3), RNG.normal(size=(3, 100))]),
    "integers": RNG.poisson(4, size=(4, 150)),
    "binary": RNG.random((4, 150)) < 0.3,
    "rare": RNG.random((2, 150)) < 0.02,
    "offset": 1e3 + RNG.normal(size=(2, 300)),
    "many chains": RNG.normal(size=(20, 12)),
    **{f"short {n}": RNG.normal(size=(2, n)) for n in range(4, 12)},
}
NAMES = ["rhat", "ess_bulk", "ess_tail", "mcse_mean", "mcse_quantile0.3", "mcse_quantile0.95"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("label", ARRAYS)
def test_equal_to_arviz(label, name):
    x = ARRAYS[label]
    np.testing.assert_allclose(weald_value(name, x), arviz_value(name, x), rtol=1e-10)


@pytest.mark.parametrize("name", ["rhat", "ess_bulk", "ess_tail", "mcse_mean"])
def test_every_entry_as_if_alone(name, monkeypatch):
    function = getattr(dg, name)
    x = ar(0.7, (3, 60, 4, 5))
    x[0, 3, 1, 1] = np.nan
    x[:, :, 2, 2] = 7.0
    alone = np.array([[function(x[:, :, i, j]) for j in range(5)] for i in range(4)])
    np.testing.assert_allclose(function(x), alone, rtol=1e-12)
    monkeypatch.setattr(dg, "TILE", 500)
    np.testing.assert_allclose(function(x), alone, rtol=1e-12)
    assert np.isnan(alone[1, 1])
    assert np.isnan(alone).sum() == (2 if name == "rhat" else 1)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.7e9, 1e-30])
def test_constant(value):
    x = np.full((2, 51), value)
    assert np.isnan(dg.rhat(x))
    assert dg.ess_bulk(x) == dg.ess_tail(x) == 100
    assert dg.mcse_quantile(x, 0.5) == 0
    assert dg.mcse_mean(x) <= 1e-15 * abs(value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", NAMES)
def test_non_finite_is_nan(name, bad):
    x = np.ones((2, 20))
    x[1, 4] = bad
    assert np.isnan(weald_value(name, x))


@pytest.mark.parametrize("shape", [(2, 3), (1, 0), (0, 100), (4, 1)])
@pytest.mark.parametrize("name", NAMES)
def test_too_short_is_nan(name, shape):
    assert np.isnan(weald_value(name, np.ones(shape)))


def test_no_entries_gives_no_values():
    assert dg.rhat(np.ones((2, 10, 0, 3))).shape == (0, 3)


def test_chains_stuck_apart_have_infinite_rhat():
    assert dg.rhat(np.repeat([[0.0], [1.0]], 20, axis=1)) == np.inf


def test_drift_of_a_single_chain_shows():
    noise = np.random.default_rng(0).normal(size=(1, 400))
    assert dg.rhat(noise) < 1.02
    assert dg.rhat(noise + np.linspace(0, 4, 400)) > 1.3


def test_scale_does_not_matter():
    x = ar(0.5, (2, 200))
    for name in ("rhat", "ess_bulk", "ess_tail"):
        assert weald_value(name, 1e-25 * x) == pytest.approx(weald_value(name, x), rel=1e-12)
    assert dg.mcse_mean(1e-25 * x) == pytest.approx(1e-25 * dg.mcse_mean(x), rel=1e-9)


def test_offset_does_not_matter():
    x = np.round(ar(0.5, (2, 200)), 3)
    for name in NAMES:
        assert weald_value(name, x + 2.0**30) == pytest.approx(weald_value(name, x), rel=1e-4)


def test_mcse_covers_the_mean_and_naive_error_does_not():
    """240 replicates of AR(1): the standard score of the mean has variance one; ignoring autocorrelation fails."""
    x = np.moveaxis(np.stack([ar(0.8, (2, 400), seed) for seed in range(240)]), 0, -1)[:, 50:]
    score = x.mean((0, 1)) / dg.mcse_mean(x)
    naive = x.mean((0, 1)) / (x.std((0, 1)) / np.sqrt(700))
    assert 0.6 < np.mean(score**2) < 1.6
    assert np.mean(naive**2) > 4


@pytest.mark.parametrize("bad", [np.zeros(5), np.zeros((2, 5), complex), np.full((2, 5), "a")])
def test_wrong_draws(bad):
    with pytest.raises(ParameterError, match="draws must be real"):
        dg.rhat(bad)


@pytest.mark.parametrize("q", [0, 1, -0.1, 1.5, np.nan])
def test_wrong_quantile(q):
    with pytest.raises(ParameterError, match="strictly between"):
        dg.mcse_quantile(np.zeros((2, 10)), q)


def test_co_clustering_by_hand():
    Z = np.array([[0, 0, 1], [5, 5, 5], [-1, 2, 2], [3, 3, 0]])
    expected = np.array([[4, 3, 1], [3, 4, 2], [1, 2, 4]]) / 4
    np.testing.assert_array_equal(dg.co_clustering(Z), expected)
    np.testing.assert_array_equal(dg.co_clustering(Z, rows=[2, 0]), expected[np.ix_([2, 0], [2, 0])])


@pytest.mark.parametrize("Z", [np.zeros(3, int), np.zeros((0, 3), int), np.zeros((1, 2, 3), int)])
def test_co_clustering_wrong_shape(Z):
    with pytest.raises(ParameterError, match="draws, n"):
        dg.co_clustering(Z)


def posterior() -> Posterior:
    rng = np.random.default_rng(0)
    draws = {"alpha": rng.gamma(2, size=(2, 50)), "K": rng.poisson(3, (2, 50)), "w": rng.random((2, 50, 3)),
             "z": rng.integers(0, 3, (2, 50, 9))}  # fmt: skip
    return Posterior(draws, {}, Status(), {})


def test_summarise():
    p = posterior()
    out = dg.summarise(p)
    assert list(out) == ["alpha", "K", "w"]
    np.testing.assert_allclose(out["w"].mean, p.draws["w"].mean((0, 1)))
    np.testing.assert_allclose(out["w"].sd, p.draws["w"].std((0, 1), ddof=1))
    assert out["w"].rhat.shape == (3,)
    assert out["K"].ess_tail == dg.ess_tail(p.draws["K"])
    assert list(dg.summarise(p, ["z"])) == ["z"]
    with pytest.raises(ParameterError, match="beta"):
        dg.summarise(p, ["beta"])


def test_summarise_one_draw():
    out = dg.summarise(Posterior({"a": np.array([[2.0]])}, {}, Status(), {}))["a"]
    assert out.mean == 2
    assert np.isnan(out[1:]).all()
