"""`assign="auto"`: what it chooses, that it may change its mind, and that it says so."""

import numpy as np
import pytest

from weald import Mixture
from weald.assign import AutoAssignment, ExactAssignment, Rows, sample_all
from weald.assign import auto as auto_module
from weald.assign.auto import CHOICES, in_words, lists_pay
from weald.assign.base import statistics
from weald.datasets import make_blobs_overlapping
from weald.engine import Threads
from weald.families import SphericalGaussian


def chosen(fit):
    """Names of the kernels of each sweep."""
    return [CHOICES[int(k)] for k in fit.posterior_.stats["kernel"][0]]


def blobs(n, d, k):
    return make_blobs_overlapping(n, d, k, 5.0, np.random.default_rng(0), np.float32).X


@pytest.mark.parametrize(
    ("K", "width", "draws", "strict", "names"),
    [
        (8, 5, True, False, ("exact",)),
        (100, 40, True, False, ("exact",)),
        (100, 6, True, False, ("exact", "pruned")),
        (100, 6, False, False, ("exact", "pruned")),
        (1000, 40, True, False, ("exact", "lists")),
        (1000, 40, True, True, ("exact",)),
        (1000, 40, False, False, ("exact",)),
        (1000, 6, True, False, ("exact", "lists", "pruned")),
    ],
)
def test_candidates(K, width, draws, strict, names):
    kernel = AutoAssignment(K, width, draws, strict)
    assert kernel.names == names
    assert kernel.layout == ("nearby" if "pruned" in names else "parts")
    assert (kernel.period > 1) == ("lists" in names)


@pytest.mark.parametrize("inference", ["em", "sem", "vb"])
@pytest.mark.filterwarnings("ignore::weald.exceptions.StatusWarning")
def test_few_columns_are_pruned(inference):
    X = blobs(6_000, 2, 100)
    fit = Mixture(100, covariance="spherical", inference=inference, max_iter=8, random_state=0).fit(X)
    assert chosen(fit)[-1] == "pruned"
    assert "pruned" in fit.posterior_.attrs["assign"]
    same = Mixture(100, covariance="spherical", inference=inference, assign="exact", max_iter=8, random_state=0).fit(X)
    assert fit.score(X) == pytest.approx(same.score(X), abs=0.05 if inference == "sem" else 1e-3)
    assert fit.posterior_.stats["n_evals"][0, -1] < 0.5 * same.posterior_.stats["n_evals"][0, -1]


@pytest.mark.filterwarnings("ignore::weald.exceptions.StatusWarning")
def test_gibbs_may_be_pruned():
    X = blobs(6_000, 2, 100)
    fit = Mixture(
        100, covariance="spherical", inference="gibbs", draws=4, warmup=4, chains=1, random_state=0
    ).fit(X)  # fmt: skip
    assert chosen(fit)[-1] == "pruned"


@pytest.mark.filterwarnings("ignore::weald.exceptions.StatusWarning")
def test_many_components_in_many_columns_get_lists():
    X = blobs(4_000, 30, 320)
    fit = Mixture(320, covariance="spherical", inference="sem", max_iter=6, random_state=0).fit(X)
    assert chosen(fit) == ["lists"] * 6
    assert "lists for 6 sweeps" in fit.posterior_.attrs["assign"]
    assert np.isfinite(fit.posterior_.stats["n_outside"][0, 1:]).all()


@pytest.mark.filterwarnings("ignore::weald.exceptions.StatusWarning")
def test_lists_that_do_not_pay_are_given_up(monkeypatch):
    monkeypatch.setattr(auto_module, "GATHERED", 1e4)
    X = blobs(4_000, 30, 320)
    fit = Mixture(320, covariance="spherical", inference="sem", max_iter=14, random_state=0).fit(X)
    names = chosen(fit)
    assert names[:4] == ["lists"] * 4
    assert names[-1] == "exact"
    assert "lists for 5 sweeps, then exact for 9 sweeps" in fit.posterior_.attrs["assign"]


@pytest.mark.parametrize(("moved", "pays"), [(10.0, True), (90.0, False)])
def test_lists_pay_by_labels_renewed_for_their_work(moved, pays):
    rows = Rows(np.zeros((1000, 2)), SphericalGaussian.from_data(np.eye(2)))
    figures = {"n_looked": 100.0, "n_moved": moved, "n_evals": 100.0 * 400 + 5000.0, "renewed": 0.1}
    assert lists_pay(rows, 400, {k: np.array(v) for k, v in figures.items()}) is pays


def test_words_tell_every_change():
    stats = {"kernel": np.array([1.0, 1.0, 0.0]), "n_evals": np.array([5.0, 5.0, 10.0]), "renewed": np.full(3, 0.25)}
    assert in_words(stats, 10.0) == (
        "auto: lists for 2 sweeps, then exact for 1 sweep; the last sweep computed 100.0% of all scores "
        "and renewed 25.0% of the labels"
    )


def test_labels_are_drawn_as_by_the_kernel_chosen(rng):
    X = blobs(5_000, 2, 80).astype(np.float64)
    family = SphericalGaussian.from_data(X, 80)
    rows, one = Rows(X, family), Threads(1)
    z = rng.integers(0, 80, len(X)).astype(np.int32)
    S = statistics(rows, z, 80, one)
    eta, log_w = family.mode_eta(S), np.full(80, -np.log(80))
    outs = []
    for kernel in (AutoAssignment(80, family.width, draws=True, strict=False), ExactAssignment()):
        plan, _ = kernel.refresh(kernel.prepare(rows), eta, log_w, 0, {})
        outs.append(sample_all(kernel, plan, rows, z, S, kernel.blank(len(X), 80), np.uint64(3), one))
    assert outs[0].log_norm == pytest.approx(outs[1].log_norm, rel=1e-10)
    assert pytest.approx(statistics(rows, outs[0].z, 80, one), abs=1e-8) == outs[0].S
