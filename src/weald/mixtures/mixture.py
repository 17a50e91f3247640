"""Finite mixtures with a known number of components.

    p(x) = sum_k w_k p(x | eta_k),    w ~ Dirichlet(a),    eta_k ~ conjugate prior

by EM, stochastic EM, Gibbs sampling or variational Bayes, for every family of `weald.families`. The algorithms
are one kernel (`weald.mixtures.kernels`); this file is their scikit-learn face.

    >>> from weald.datasets import load_demo
    >>> mix = Mixture(n_components=3, random_state=0).fit(load_demo().X)
    >>> mix.predict_proba(load_demo().X[:2]).shape
    (2, 3)
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from weald import __version__
from weald._progress import Callback
from weald._random import key_from, step_rng
from weald._typing import Array, IntArray, Params, PathLike, RandomState, TableLike
from weald._validate import check_amount, check_count, weights_for
from weald.assign import AbstractAssignment, Rows, assignment_from_name
from weald.assign.auto import in_words
from weald.base import fingerprint, fingerprint_of
from weald.exceptions import DataError, ParameterError, StatusWarning
from weald.families.base import AbstractFamily
from weald.inference.run import Chain, run
from weald.mixtures.kernels import RULES, MixtureKernel, MixtureState, Model
from weald.mixtures.outcome import best_of, longest, matched, point
from weald.mixtures.predictor import AbstractComponentEstimator
from weald.mixtures.starts import LOOKING, STARTS, first_statistics
from weald.mixtures.verdict import of_chains, of_optimiser, stopping
from weald.partitions import FiniteDirichlet
from weald.persist import read
from weald.posterior import Posterior

PREDICT_DRAWS = 200  # draws that predictions average over
STEP_POWER = 0.7  # stepwise EM forgets as (t + 2)^-0.7 (Cappe & Moulines 2009)


def _takes_batches(mixture: Mixture) -> bool:
    if mixture.inference in ("em", "vb"):
        return True
    raise AttributeError(f"partial_fit needs inference='em' or 'vb', not {mixture.inference!r}")


class Mixture(ClusterMixin, AbstractComponentEstimator):
    """Mixture model with a fixed number of components.

    Parameters
    ----------
    n_components : int
        Number of components K.
    family : str or AbstractFamily
        ``"gaussian"``, ``"bernoulli"``, ``"categorical"``, ``"multinomial"``, ``"poisson"``, ``"mixed"`` (a product
        of families, one for each column, from its dtype), or a family with its prior.
    covariance : str
        For Gaussians: ``"full"``, ``"diag"``, ``"spherical"`` or ``"tied"``.
    inference : str
        ``"em"`` (maximum a posteriori), ``"sem"`` (stochastic EM: fast for many components), ``"gibbs"`` (draws from
        the posterior), ``"vb"`` (variational Bayes: empties components it does not need).
    assign : str
        E-step: ``"exact"`` scores every component for every row, ``"pruned"`` only those that bounds cannot rule out
        (few columns); for sem also ``"lists"`` (a few candidates of each row, and all of them now and then),
        ``"groups"`` (labels are redrawn within random groups of components), ``"canopy1"`` and ``"canopy2"``
        (proposals from tables that similar rows share) and ``"tree"`` (exact draws from a tree of components).
        ``"auto"`` chooses between exact, pruned and lists by what sweeps cost and renew, and may change its mind;
        ``posterior_.attrs["assign"]`` says what it chose and why.
    init : str
        ``"kmeans++"``, ``"random-points"``, ``"cover-tree"`` (points far from each other), or ``"random"`` (parameters
        from the prior).
    max_iter : int
        Most sweeps of em, sem and vb.
    tol : float
        em, sem and vb stop when the objective per row has less than this still to rise.
    n_init : int
        Starts of em, sem and vb; the best objective is kept.
    weight_concentration : float or None
        a of the Dirichlet prior of the weights; None is 1, and 1/K for vb.
    prior : mapping or None
        Hyperparameters of the family by name, instead of its documented defaults.
    draws, warmup, chains : int
        Gibbs: draws kept by each chain, sweeps before them, and number of chains.
    warm_start : bool
        Start the next fit where the last one ended.
    n_jobs : int or None
        Threads; None takes every core. Results do not depend on it.
    random_state : int, Generator, RandomState or None
        Seed.

    Attributes
    ----------
    labels_ : (n,) int array
        Most probable component of each row of the training data.
    weights_ : (K,) array
        Mixture weights (posterior means for gibbs and vb).
    parameters_ : dict of str to (K, ...) array
        Parameters of the components in the units of the data, such as ``"means"``; also as attributes ``means_``, ...
    n_components_ : int
        Components that hold at least one row.
    posterior_ : Posterior
        Draws of the parameters, trace of every sweep, and how it ended.
    status_ : Status
        May the fit be trusted, and if not, what to do.
    lower_bound_ : float
        Final objective per row: log posterior (em, sem), log-likelihood (gibbs), evidence bound (vb).
    n_iter_ : int
        Sweeps of the best start, or of each chain.
    converged_ : bool
        Whether `status_` is ok.
    n_features_in_, feature_names_in_
        Width and names of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> import weald
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3, 1, (50, 2)), rng.normal(3, 1, (50, 2))])
    >>> mix = weald.Mixture(n_components=2, random_state=0).fit(X)
    >>> sorted(np.bincount(mix.labels_).tolist())
    [50, 50]
    """

    def __init__(
        self,
        n_components: int = 8,
        *,
        family: str | AbstractFamily = "gaussian",
        covariance: Literal["full", "diag", "spherical", "tied"] = "full",
        inference: Literal["em", "sem", "gibbs", "vb"] = "em",
        assign: str = "auto",
        init: Literal["kmeans++", "random-points", "cover-tree", "random"] = "kmeans++",
        max_iter: int = 100,
        tol: float = 1e-3,
        n_init: int = 1,
        weight_concentration: float | None = None,
        prior: Params | None = None,
        draws: int = 500,
        warmup: int = 500,
        chains: int = 4,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.family = family
        self.covariance = covariance
        self.inference = inference
        self.assign = assign
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.weight_concentration = weight_concentration
        self.prior = prior
        self.draws = draws
        self.warmup = warmup
        self.chains = chains
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state

    _persisted = ("_components", "_schema", "_state", "_n_steps", "_likelihood")
    _state: MixtureState

    def fit(
        self,
        X: TableLike,
        y: Any = None,
        sample_weight: Array | None = None,
        *,
        callbacks: Sequence[Callback] = (),
        resume: PathLike | None = None,
    ) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X : table of shape (n, d)
            Data: numpy, pandas, polars, sparse, or a path to csv, tsv, parquet, npy or npz.
        y : ignored
            Present for scikit-learn.
        sample_weight : (n,) array, optional
            Weight of each row; not for gibbs, whose labels would have no exact law.
        callbacks : sequence of callables
            Told of every sweep (`weald.Progress`, `weald.Checkpoint`, your own); returning True stops the fit.
        resume : path, optional
            A file written by `weald.Checkpoint` in a fit with the same data and parameters: go on from there.

        Returns
        -------
        Mixture
            self
        """
        self._check_parameters(sample_weight)
        started = time.perf_counter()
        M = self._read(X, reset=True)
        weight = weights_for(sample_weight, M)
        if self.n_components > M.shape[0]:
            raise DataError(f"n_components={self.n_components} is more than n_samples={M.shape[0]}: ask for fewer")
        key = key_from(self.random_state)
        kernel = self._kernel(Rows(M, self._make_family(M, self.n_components, weight), weight)).arranged()
        snapshot = None if resume is None else read(resume, "Snapshot")
        mark = lambda: fingerprint_of(self, X=M, weight=weight)  # noqa: E731
        schedule = self._schedule(kernel)
        chains = run(kernel, key=key, callbacks=callbacks, resume=snapshot, fingerprint=mark, **schedule)
        draws = self._keep(kernel, chains)
        self._report(kernel, chains, draws, {"seed": int(key), "seconds": time.perf_counter() - started})
        self.labels_ = self._components.best(M, kernel.engine)
        self.n_components_ = int(np.unique(self.labels_).size)
        self._n_steps = 0
        return self

    @available_if(_takes_batches)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: TableLike, y: Any = None, sample_weight: Array | None = None) -> Self:
        """One step of stepwise EM on a batch (Cappe & Moulines 2009).

        Statistics per row are averaged with weights (t + 2)^-0.7, so old batches fade. The first batch also
        decides centring, scaling and prior: make it representative.

        Parameters
        ----------
        X : table of shape (n, d)
            A batch of rows.
        y : ignored
            Present for scikit-learn.
        sample_weight : (n,) array, optional
            Weight of each row.

        Returns
        -------
        Mixture
            self
        """
        if not hasattr(self, "_components"):
            return self._first_batch(X, sample_weight)
        M = self._read(X, reset=False)
        components, S, rng = self._components.for_rows(M), self._state.S, step_rng(np.uint64(0), chain=0, sweep=0)
        if components is not self._components:  # the first missing cells of the stream
            S = self._components.family.widen_S(S)
        kernel = self._kernel(Rows(M, components.family, weights_for(sample_weight, M)))
        before = MixtureState(S, *kernel.rule.parameters(kernel.model, S, rng), self._state.z)
        after, info = kernel.step(rng, before)
        self._n_steps += 1
        rate = (self._n_steps + 2.0) ** -STEP_POWER
        n_before, n_now = S[:, -1].sum(), kernel.rows.total_weight
        S = (n_before + n_now) * ((1 - rate) * S / n_before + rate * after.S / n_now)
        state = MixtureState(S, *kernel.rule.parameters(kernel.model, S, rng), after.z)
        return self._keep_batch(kernel, Chain(state, {name: np.array([v]) for name, v in info.items()}, {}))

    def predict(self, X: TableLike) -> IntArray:
        """Most probable component of each row.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows to label.

        Returns
        -------
        (n,) int array
        """
        return self._best(X)

    def sample(self, n_samples: int = 1) -> tuple[Array, IntArray]:
        """Simulate rows from the fitted model (from the posterior predictive for gibbs).

        Parameters
        ----------
        n_samples : int
            Rows to draw.

        Returns
        -------
        X : (n_samples, d) array
            Rows in the units of the data; categorical columns as codes.
        z : (n_samples,) int array
            The component of each.
        """
        check_is_fitted(self, "_components")
        check_count("n_samples", n_samples)
        rng = np.random.Generator(np.random.Philox(int(key_from(self.random_state))))
        components = self._components.drawn(min(int(n_samples), PREDICT_DRAWS), rng)
        draw = rng.integers(len(components.eta), size=n_samples)
        z = np.argmax(components.log_w[draw] + rng.gumbel(size=(n_samples, components.n_components)), axis=1)
        return components.family.sample_x(components.eta[draw, z], rng), z

    def aic(self, X: TableLike) -> float:
        """Akaike's information criterion of the fitted point on X: smaller is better.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows.

        Returns
        -------
        float
        """
        return -2.0 * float(self.score_samples(X).sum()) + 2.0 * self._n_parameters()

    def bic(self, X: TableLike) -> float:
        """Schwarz's information criterion of the fitted point on X: smaller is better.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows.

        Returns
        -------
        float
        """
        scores = self.score_samples(X)
        return -2.0 * float(scores.sum()) + self._n_parameters() * float(np.log(scores.size))

    def _n_parameters(self) -> int:
        family, K = self._components.family, self.n_components
        return K * family.n_parameters + family.n_shared_parameters + K - 1

    def _check_parameters(self, sample_weight: Any) -> None:
        if self.inference not in RULES:
            raise ParameterError(f"inference must be one of {sorted(RULES)}, got {self.inference!r}")
        if self.init not in STARTS:
            raise ParameterError(f"init must be one of {STARTS}, got {self.init!r}")
        for name in ("n_components", "max_iter", "n_init", "draws", "chains"):
            check_count(name, getattr(self, name))
        check_count("warmup", self.warmup, "a non-negative int", least=0)
        check_amount("tol", self.tol)
        if self.weight_concentration is not None:
            check_amount("weight_concentration", self.weight_concentration)
        if self.inference == "gibbs" and sample_weight is not None:
            raise ParameterError("gibbs has no exact law for weighted rows: repeat rows, or use 'em', 'sem' or 'vb'")

    def _assignment(self, width: int) -> AbstractAssignment:
        draws, strict = not RULES[self.inference].soft, self.inference == "gibbs"
        return assignment_from_name(self.assign, self.n_components, width=width, draws=draws, strict=strict)

    def _kernel(self, rows: Rows) -> MixtureKernel:
        K = self.n_components
        default = 1.0 / K if self.inference == "vb" else 1.0
        a = default if self.weight_concentration is None else self.weight_concentration
        family = rows.family
        if self.warm_start and getattr(self, "_likelihood", None) == self._likelihood_now():
            family, S = self._components.family, self._state.S
            first, settles = lambda rng: S, False
        else:
            settles = self.init not in LOOKING
            first = lambda rng: first_statistics(self.init, rows, K, rng)  # noqa: E731
        rows = replace(rows, family=family)
        return MixtureKernel(
            Model(family, FiniteDirichlet(K, a)), rows, RULES[self.inference],
            self._assignment(family.width), self._engine(), first, rows.log_base(), settles=settles,
        )  # fmt: skip

    def _likelihood_now(self) -> str:
        """What a warm start must share with the fit before."""
        return fingerprint(K=self.n_components, family=self.family, covariance=self.covariance, prior=self.prior)

    def _schedule(self, kernel: MixtureKernel) -> dict[str, Any]:
        """How long to run, when to stop, what to keep."""
        if self.inference == "gibbs":
            sweeps = self.warmup + self.draws
            keep = lambda state: {"eta": state.eta, "log_w": state.log_w}  # noqa: E731
            return {"sweeps": sweeps, "chains": self.chains, "warmup": self.warmup, "collect": keep}
        return {
            "sweeps": self.max_iter,
            "chains": self.n_init,
            "stop": stopping(kernel.rule, kernel.rows.total_weight, self.tol, kernel.assign.period),
        }

    def _first_batch(self, X: TableLike, sample_weight: Array | None) -> Self:
        self._check_parameters(sample_weight)
        M = self._read(X, reset=True)
        weight = weights_for(sample_weight, M)
        kernel = self._kernel(Rows(M, self._make_family(M, self.n_components, weight), weight))
        [chain] = run(kernel, key=key_from(self.random_state), sweeps=1)
        self._n_steps = 0
        return self._keep_batch(kernel, chain)

    def _keep_batch(self, kernel: MixtureKernel, chain: Chain) -> Self:
        """Components, and the labels of the batch; what an earlier fit said of itself is true no more."""
        self._keep(kernel, [chain])
        for name in {"posterior_", "status_", "lower_bound_", "converged_", "n_iter_"} & set(vars(self)):
            delattr(self, name)
        self.labels_ = self._components.best(kernel.rows.X, kernel.engine)
        self.n_components_ = int(np.unique(self.labels_).size)
        return self

    def _keep(self, kernel: MixtureKernel, chains: Sequence[Chain]) -> dict[str, Array]:
        """Turn chains into components; return the draws of their parameters as (chain, draw, K, ...)."""
        gibbs = self.inference == "gibbs"
        state: MixtureState = chains[-1].state if gibbs else best_of(chains).state
        self._state = replace(
            state, z=np.empty(0, np.int32), memory={}, shared={}
        )  # labels of rows are no part of a model file
        kept = matched(kernel, chains, self.warmup) if gibbs else point(kernel, self._state)
        self._likelihood = self._likelihood_now()
        for name in getattr(self, "parameters_", {}):  # of the fit before, perhaps with another family
            delattr(self, f"{name}_")
        self._components = kept.thinned(PREDICT_DRAWS)
        named = {name: np.stack(values) for name, values in kept.named().items()}
        self.parameters_ = {name: values.mean(axis=0) for name, values in named.items() if name != "weights"}
        self.weights_ = named["weights"].mean(axis=0)
        for name, value in self.parameters_.items():
            setattr(self, f"{name}_", value)
        n_chains = len(longest(chains)[0]) if gibbs else 1
        return {name: values.reshape(n_chains, -1, *values.shape[1:]) for name, values in named.items()}

    def _report(self, kernel: MixtureKernel, chains: Sequence[Chain], draws: dict[str, Array], attrs: Params) -> None:
        """Posterior, status and the figures that go with them."""
        gibbs = self.inference == "gibbs"
        kept = longest(chains)[0] if gibbs else [best_of(chains)]
        n = min(len(chain.stats["objective"]) for chain in kept)
        stats = {name: np.stack([chain.stats[name][:n] for chain in kept]) for name in kept[0].stats}
        rows = kernel.rows.total_weight
        if gibbs:
            self.status_ = of_chains(stats, self.warmup)
        else:
            last = {name: values[0].tolist() for name, values in stats.items()}
            arrived = stopping(kernel.rule, rows, self.tol, kernel.assign.period)(last)
            self.status_ = of_optimiser(stats["objective"][0], arrived=arrived, rises=kernel.rule.rises, n_rows=rows)
        figures = {name: values[0] for name, values in stats.items()}
        n_scores = kernel.rows.n_rows * self.n_components
        assign = in_words(figures, n_scores) if "kernel" in stats else self.assign
        record = {**attrs, "weald": __version__, "inference": self.inference, "assign": assign}
        self.posterior_ = Posterior(draws, stats, self.status_, record, min(self.warmup, n) if gibbs else 0)
        self.n_iter_ = n
        self.lower_bound_ = float(stats["objective"][:, -1].mean()) / rows
        self.converged_ = self.status_.ok
        if not self.status_.ok:
            warnings.warn(str(self.status_), StatusWarning, stacklevel=3)
