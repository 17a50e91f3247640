"""Mixtures with an unknown number of clusters: draws from the posterior of partitions.

    partition ~ prior,      eta_c ~ conjugate prior for each cluster c,       x_i ~ p(x | eta_{c(i)})

with a Dirichlet process, Pitman-Yor process, normalised generalised gamma process or mixture of finite mixtures as
prior (`weald.partitions`), its hyperparameters learnt along. The parameters of the clusters are integrated out. What
is drawn is the partition, by one of

    collapsed     one row after the other, and split-merge moves          `weald.mixtures.collapsed`
    tree-guided   split-merge moves of whole branches of a tree           `weald.mixtures.tree_guided`
    parallel      weights and parameters drawn, all rows at once          `weald.mixtures.parallel`
    vb            the best factorised approximation, quick and narrow     `weald.mixtures.variational`

The first three have the same law. This file is their scikit-learn face; one partition is made of many by
`weald.consensus`, new rows are met by `weald.mixtures.partition_draws`.

    >>> from weald.datasets import load_demo
    >>> model = DPMixture(draws=50, warmup=50, chains=2, random_state=0).fit(load_demo().X)     # doctest: +SKIP
    >>> model.n_components_, model.n_components_interval_                                      # doctest: +SKIP
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from weald import __version__, consensus
from weald._progress import Callback
from weald._random import key_from, step_rng
from weald._typing import Array, FloatArray, IntArray, Matrix, Params, PathLike, RandomState, TableLike
from weald._validate import check_count
from weald.assign import Rows
from weald.assign.base import statistics
from weald.base import AbstractTableEstimator, fingerprint_of
from weald.diagnostics import co_clustering
from weald.exceptions import ParameterError, Status, StatusWarning, Verdict
from weald.families.base import AbstractFamily
from weald.mixtures.base_measure import EXPECTED, firm
from weald.mixtures.outcome import Sampled, for_consensus, spaced
from weald.mixtures.particles import learnt
from weald.mixtures.partition_draws import PartitionDraws, draws_of
from weald.mixtures.samplers import Plan, plan_for, priors_of
from weald.partitions import AbstractPartition
from weald.persist import read
from weald.posterior import Posterior

MAX_CLUSTERS = 4_000  # clusters of all draws that predictions average over
PREDICT_DRAWS = 100
MEAN_DRAWS = 50  # draws whose mean stands for the parameters of a cluster
MANY_ROWS = 10_000  # beyond which the point estimate is searched from few starts
MAX_PAIRS = 5_000  # rows of a co-clustering matrix
LEAST_DRAWS = 5  # effective number of draws below which a new fit is needed


class DPMixture(ClusterMixin, AbstractTableEstimator):
    """Mixture model that finds the number of clusters, with its uncertainty.

    Parameters
    ----------
    family : str or AbstractFamily
        ``"gaussian"``, ``"bernoulli"``, ``"categorical"``, ``"multinomial"``, ``"poisson"``, ``"mixed"`` (a product
        of families, one for each column, from its dtype), or a family with its prior.
    covariance : str
        For Gaussians: ``"full"``, ``"diag"`` or ``"spherical"``.
    prior : str or AbstractPartition
        ``"dp"`` (Dirichlet process), ``"pitman-yor"`` (power-law sizes), ``"nggp"`` (normalised generalised gamma),
        ``"nig"`` (normalised inverse Gaussian), ``"mfm"`` (a finite but unknown number of clusters), or a prior with
        its hyperparameters, such as ``weald.partitions.DirichletProcess(shape=2, rate=4)``.
    inference : str
        ``"collapsed"``, ``"tree-guided"``, ``"parallel"`` (large data), ``"vb"`` (variational: a quick look), or
        ``"auto"``, which goes by rows and family: ``posterior_.attrs["inference"]`` says what and why.
    assign : str
        How the parallel sampler draws labels: as in `Mixture`, but for ``"lists"``, which remember past draws.
    family_prior : mapping or None
        Hyperparameters of the family by name, instead of defaults that are scaled to the data.
    draws, warmup : int or None
        Draws kept by each chain, and sweeps before them; None goes by the number of rows.
    chains : int
        Number of chains, from different starts.
    max_clusters : int or None
        A chain with more clusters is stopped, and `status_` says what to do; for vb the most there can be.
    n_jobs : int or None
        Threads; None takes every core. Results do not depend on it.
    random_state : int, Generator, RandomState or None
        Seed.

    Attributes
    ----------
    partition_, labels_ : (n,) int array
        The partition of least expected variation of information; 0 is the largest cluster. A row is a cluster of its
        own only if it is so in half of the draws.
    n_components_ : int
        Its number of clusters.
    n_components_interval_ : tuple of int
        The shortest interval that holds the number of clusters with 95 % probability. Draws have small clusters that
        come and go, so `n_components_` may lie below it.
    n_components_posterior_ : tuple of two arrays
        Numbers of clusters, and their probabilities.
    partition_ball_ : weald.consensus.Ball
        How far 95 % of the posterior spreads around the partition.
    uncertainty_ : (n,) array
        How unsure the place of each row is: one minus its mean co-clustering with the others of its cluster.
    weights_ : (G,) array
        Shares of the rows.
    parameters_ : dict of str to (G, ...) array
        Posterior means of the parameters of the clusters of `partition_`, in the units of the data; also as attributes
        ``means_``, ...
    family_ : AbstractFamily
        The likelihood with the prior that was used.
    posterior_ : Posterior
        Draws ``"z"`` (chain, draw, n), ``"n_clusters"`` and the hyperparameters; trace of every sweep.
    status_ : Status
        May the draws be trusted, and if not, what to do.
    n_features_in_, feature_names_in_
        Width and names of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> import weald
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3, 1, (50, 2)), rng.normal(3, 1, (50, 2))])
    >>> model = weald.DPMixture(draws=300, warmup=100, random_state=0).fit(X)
    >>> model.n_components_
    2
    """

    def __init__(
        self,
        *,
        family: str | AbstractFamily = "gaussian",
        covariance: Literal["full", "diag", "spherical"] = "full",
        prior: str | AbstractPartition = "dp",
        inference: Literal["auto", "collapsed", "tree-guided", "parallel", "vb"] = "auto",
        assign: str = "auto",
        family_prior: Params | None = None,
        draws: int | None = None,
        warmup: int | None = None,
        chains: int = 4,
        max_clusters: int | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.family = family
        self.covariance = covariance
        self.prior = prior
        self.inference = inference
        self.assign = assign
        self.family_prior = family_prior
        self.draws = draws
        self.warmup = warmup
        self.chains = chains
        self.max_clusters = max_clusters
        self.n_jobs = n_jobs
        self.random_state = random_state

    _persisted = ("_draws", "_schema")
    _draws: PartitionDraws
    posterior_: Posterior

    def fit(
        self, X: TableLike, y: Any = None, *, callbacks: Sequence[Callback] = (), resume: PathLike | None = None
    ) -> Self:
        """Draw partitions of the rows.

        Parameters
        ----------
        X : table of shape (n, d)
            Data: numpy, pandas, polars, sparse, or a path to csv, tsv, parquet, npy or npz.
        y : ignored
            Present for scikit-learn.
        callbacks : sequence of callables
            Told of every sweep (`weald.Progress`, `weald.Checkpoint`, your own); returning True stops the fit.
        resume : path, optional
            A file written by `weald.Checkpoint` in a fit with the same data and parameters: go on from there.

        Returns
        -------
        DPMixture
            self
        """
        for name, least in (("draws", 1), ("warmup", 0), ("chains", 1), ("max_clusters", 1)):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), f"an int of at least {least}", least=least)
        started = time.perf_counter()
        M = self._read(X, reset=True)
        plan = self._plan(M)
        key = key_from(self.random_state)
        mark = lambda: fingerprint_of(self, X=M)  # noqa: E731
        snapshot = None if resume is None else read(resume, "Snapshot")
        sampled = plan.run(key, callbacks=callbacks, resume=snapshot, fingerprint=mark)
        rng = step_rng(key, chain=plan.chains, sweep=0)
        self._estimate(sampled, rng)
        self._describe(plan, sampled, rng)
        self._report(plan, sampled, {"seed": int(key), "seconds": time.perf_counter() - started})
        return self

    def partial_fit(self, X: TableLike, y: Any = None) -> Self:
        """Learn more rows without looking at the earlier ones again.

        The draws of the fit are particles: each takes the rows one after the other, and is weighted by how well it
        predicts them (`weald.mixtures.particles`). `predict`, `score_samples` and `sample` then speak of all rows;
        rows unlike any before may found groups of their own. The first call is a `fit`.

        Parameters
        ----------
        X : table of shape (n, d)
            More rows.
        y : ignored
            Present for scikit-learn.

        Returns
        -------
        DPMixture
            self
        """
        if not hasattr(self, "_draws"):
            return self.fit(X)
        M = self._read(X, reset=False)
        self._draws, share = learnt(self._draws, M, np.random.default_rng(int(key_from(self.random_state))))
        self.labels_ = self._draws.proba(M, self._engine()).argmax(axis=1)
        self.n_components_ = self._draws.n_groups
        if share * self._draws.n_draws < LEAST_DRAWS:
            message = f"only {share * self._draws.n_draws:.1f} of {self._draws.n_draws} draws agree with the new rows"
            self.status_ = Status(Verdict.CAUTION, message, ("fit all rows together",), {"effective_share": share})
            warnings.warn(str(self.status_), StatusWarning, stacklevel=2)
        return self

    def predict(self, X: TableLike) -> IntArray:
        """Most probable cluster of `partition_` for each row.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows to label.

        Returns
        -------
        (n,) int array
        """
        return self.predict_proba(X).argmax(axis=1)

    def predict_proba(self, X: TableLike) -> FloatArray:
        """Probability of each cluster of `partition_` for each row, averaged over the posterior.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows to label.

        Returns
        -------
        array of shape (n, G)
            Rows sum to one. How probable it is that a row belongs to none of them is told by `novelty`.
        """
        check_is_fitted(self, "_draws")
        return self._draws.proba(self._read(X, reset=False), self._engine())

    def score_samples(self, X: TableLike) -> FloatArray:
        """Log posterior predictive density of each row; the lowest are outliers.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows to score.

        Returns
        -------
        (n,) array
        """
        check_is_fitted(self, "_draws")
        return self._draws.log_density(self._read(X, reset=False), self._engine())

    def novelty(self, X: TableLike) -> FloatArray:
        """Probability that a row belongs to no cluster seen so far.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows to look at.

        Returns
        -------
        (n,) array
        """
        check_is_fitted(self, "_draws")
        return self._draws.novelty(self._read(X, reset=False), self._engine())

    def sample(self, n_samples: int = 1) -> tuple[Array, IntArray]:
        """Simulate rows from the posterior predictive.

        Parameters
        ----------
        n_samples : int
            Rows to draw.

        Returns
        -------
        X : (n_samples, d) array
            Rows in the units of the data; categorical columns as codes.
        z : (n_samples,) int array
            The cluster of each, -1 for one that was not seen yet.
        """
        check_is_fitted(self, "_draws")
        check_count("n_samples", n_samples)
        rng = np.random.default_rng(int(key_from(self.random_state)))
        return self._draws.sample(int(n_samples), rng)

    def co_clustering_(self, rows: Sequence[int] | IntArray | None = None) -> FloatArray:
        """Posterior probabilities that training rows are in one cluster.

        Parameters
        ----------
        rows : sequence of m int, optional
            Which rows, at most 5,000; all by default.

        Returns
        -------
        (m, m) array
        """
        check_is_fitted(self, "_draws")
        Z = self.posterior_.flat("z")
        chosen = np.arange(Z.shape[1]) if rows is None else np.asarray(rows)
        if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or not ((chosen >= 0) & (chosen < Z.shape[1])).all():
            raise ParameterError(f"rows must be a list of training rows, numbers from 0 to {Z.shape[1] - 1}")
        if chosen.size > MAX_PAIRS:
            raise ParameterError(
                f"{chosen.size:,} rows make a matrix of {chosen.size**2:,} numbers: choose at most {MAX_PAIRS:,}, "
                "for example rows=np.linspace(0, n - 1, 1000).astype(int)"
            )
        return co_clustering(Z[:, chosen])

    @property
    def partition_ball_(self) -> consensus.Ball:
        """How far 95 % of the posterior spreads around `partition_`."""
        check_is_fitted(self, "_draws")
        return consensus.credible_ball(for_consensus(self.posterior_.flat("z")), self.partition_)

    @property
    def n_components_posterior_(self) -> tuple[IntArray, FloatArray]:
        """Numbers of clusters, and their posterior probabilities."""
        check_is_fitted(self, "_draws")
        values, counts = np.unique(self.posterior_.flat("n_clusters"), return_counts=True)
        return values, counts / counts.sum()

    def _plan(self, M: Matrix) -> Plan:
        family = self._make_family(M, EXPECTED)
        if not isinstance(self.family, AbstractFamily):
            family = firm(family, {**(self.family_prior or {}), **(self.family_prior or {}).get("gaussian", {})})
        return plan_for(
            Rows(M, family), self.prior, self.inference, draws=self.draws, warmup=self.warmup, chains=self.chains,
            max_clusters=self.max_clusters, assign=self.assign, engine=self._engine(),
        )  # fmt: skip

    def _estimate(self, sampled: Sampled, rng: np.random.Generator) -> None:
        """The point estimate, and how sure it is."""
        Z = sampled.z.reshape(-1, sampled.z.shape[-1])
        some = for_consensus(Z)
        self.n_components_interval_ = consensus.n_clusters_interval(Z)
        most = self.n_components_interval_[1]
        n_starts = 8 if some.shape[1] <= MANY_ROWS else 2
        found = consensus.point_estimate(some, max_clusters=most, support=0.5, n_starts=n_starts, rng=rng)
        self.partition_, self.n_components_ = found.labels, found.n_clusters
        self.labels_ = self.partition_
        self.uncertainty_ = consensus.uncertainty(some, self.partition_)

    def _describe(self, plan: Plan, sampled: Sampled, rng: np.random.Generator) -> None:
        """What new rows need, and the parameters of the clusters of the point estimate."""
        Z = sampled.z.reshape(-1, sampled.z.shape[-1])
        hyper = {name: values.reshape(-1) for name, values in sampled.hyper.items()}
        most = int(np.clip(MAX_CLUSTERS // max(1, self.n_components_), 10, PREDICT_DRAWS))
        at = spaced(len(Z), most)
        priors = priors_of(plan.prior, {name: values[at] for name, values in hyper.items()})
        self._draws = draws_of(plan.rows, Z[at], priors, self.partition_)
        S = statistics(plan.rows, self.partition_.astype(np.int32), self.n_components_, plan.engine)
        self.family_ = plan.rows.family
        self.weights_ = S[:, -1] / S[:, -1].sum()
        for name in getattr(self, "parameters_", {}):  # of the fit before, perhaps with another family
            delattr(self, f"{name}_")
        named = [plan.rows.family.named(plan.rows.family.sample_eta(S, rng)) for _ in range(MEAN_DRAWS)]
        self.parameters_ = {name: np.mean([draw[name] for draw in named], axis=0) for name in named[0]}
        for name, value in self.parameters_.items():
            setattr(self, f"{name}_", value)

    def _report(self, plan: Plan, sampled: Sampled, attrs: Params) -> None:
        """Posterior and status."""
        chosen = f"auto: {plan.name}, for {plan.why}" if plan.why else plan.name
        n_clusters = sampled.z.max(axis=-1).astype(np.int64) + 1
        record = {**attrs, "weald": __version__, "inference": chosen, "thin": sampled.thin}
        draws = {"z": sampled.z, "n_clusters": n_clusters, **sampled.hyper}
        self.status_ = sampled.status
        self.posterior_ = Posterior(draws, sampled.stats, self.status_, record, sampled.warmup)
        self.n_iter_ = self.posterior_.n_sweeps
        if not self.status_.ok:
            warnings.warn(str(self.status_), StatusWarning, stacklevel=3)
