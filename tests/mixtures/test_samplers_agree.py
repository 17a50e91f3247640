"""All samplers have the same posterior of the number of clusters of the galaxies, within Monte Carlo error."""

import numpy as np
import pytest

from weald.assign import ExactAssignment, Rows
from weald.datasets import load_galaxies
from weald.diagnostics import ess_bulk
from weald.engine import Threads
from weald.families import FullGaussian
from weald.inference.run import run
from weald.mixtures.collapsed import CollapsedKernel
from weald.mixtures.parallel import ParallelKernel
from weald.mixtures.tree_guided import TreeGuidedKernel
from weald.partitions import DirichletProcess, MixtureOfFiniteMixtures

X = load_galaxies()[:, None]
ROWS = Rows(X, FullGaussian.from_data(X, 3, kappa=0.02, nu=3.5))
PRIORS = {"dp": DirichletProcess(), "mfm": MixtureOfFiniteMixtures()}
WARMUP = 200
SLOW = pytest.mark.slow
COMMON = 0.05  # the effective size of a rarer event is anybody's guess: a chain visits it a few times
SIGMAS = 4.5  # two-sided 7e-6 for each comparison


def kernels(prior):
    return {
        "gibbs": CollapsedKernel(ROWS, prior, n_moves=0),
        "collapsed": CollapsedKernel(ROWS, prior),
        "tree-guided": TreeGuidedKernel(ROWS, prior, n_regroups=1, n_revisits=1),
        "parallel": ParallelKernel(ROWS, prior, ExactAssignment(), Threads(1)),
    }


def traces(kernel, sweeps):
    """(1, sweeps) of label-free figures after warmup."""
    [chain] = run(kernel, key=np.uint64(5), sweeps=WARMUP + sweeps)
    return {name: chain.stats[name][None, WARMUP:] for name in ("n_clusters", "log_joint", "largest")}


def standardised(a, b):
    """How far two means are apart in units of their Monte Carlo error."""
    variance = sum(float(np.var(x) / ess_bulk(x)) for x in (a, b))
    return abs(a.mean() - b.mean()) / np.sqrt(variance)


@pytest.mark.parametrize(
    ("prior", "times"), [("dp", 1), pytest.param("dp", 5, marks=SLOW), pytest.param("mfm", 5, marks=SLOW)]
)
def test_samplers_agree_on_the_galaxies(prior, times):
    lengths = {"gibbs": 1_500, "collapsed": 1_500, "tree-guided": 800, "parallel": 500}
    found = {name: traces(kernel, times * lengths[name]) for name, kernel in kernels(PRIORS[prior]).items()}
    reference = found.pop("collapsed")
    for name, figures in found.items():
        for figure, x in figures.items():
            assert standardised(x, reference[figure]) < SIGMAS, f"{name}: {figure}"
        x, y = figures["n_clusters"], reference["n_clusters"]
        some = {k: standardised(x == k, y == k) for k in np.unique(y) if np.mean(y == k) > COMMON}
        assert len(some) > 3
        assert max(some.values()) < SIGMAS, f"{name}: number of clusters {some}"


def test_another_prior_is_told_apart():
    """An injected bug: the concentration of one sampler is twice that of the other."""
    right = traces(CollapsedKernel(ROWS, DirichletProcess(1.0, shape=None)), 2_000)
    wrong = traces(CollapsedKernel(ROWS, DirichletProcess(2.0, shape=None)), 2_000)
    assert standardised(right["n_clusters"], wrong["n_clusters"]) > SIGMAS
