"""Bayesian hierarchical clustering: a dendrogram whose merges have probabilities, and that knows where to be cut.

    X ~ mixture with a Dirichlet process (or normalised generalised gamma) prior, parameters integrated out
    P(rows below a node are one cluster | them, the tree) = 1/(1 + d),   d = phi_t(left) phi_t(right) / phi_h(node)

for every family of `weald.families` whose clusters share no parameters. The tree is a fast guide to the posterior over
partitions: it sums over all those it can be cut into, exactly. Algorithms and costs: `weald.trees.bhc`; this file is
their scikit-learn face. References there.

    >>> tree = BayesianHierarchicalClustering().fit([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]])
    >>> tree.labels_, tree.linkage_.shape
    (array([0, 0, 0, 1, 1, 1]), (5, 4))
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import is_monotonic, is_valid_linkage
from scipy.special import expit
from sklearn.base import ClusterMixin

from weald._random import key_from, step_rng
from weald._typing import FloatArray, IntArray, Matrix, Params, RandomState, TableLike
from weald.assign import Rows
from weald.assign.base import statistics
from weald.exceptions import DataError, ParameterError
from weald.families.base import AbstractFamily
from weald.mixtures.components import Components
from weald.mixtures.laws import law_of
from weald.mixtures.predictor import AbstractComponentEstimator
from weald.partitions import DirichletProcess, NormalisedGeneralisedGamma
from weald.trees import bhc, ibhc

PRIORS, METHODS = ("dp", "nggp", "nig"), ("auto", "greedy", "incremental")
MOST_GREEDY = 5_000  # rows, or trees of inserted rows, whose distances are held in memory
AUTO_GREEDY = 2_000  # rows that "auto" merges greedily
SAMPLE = 500  # rows that "incremental" merges greedily before it inserts the others


class BayesianHierarchicalClustering(ClusterMixin, AbstractComponentEstimator):
    """Binary tree over rows by Bayesian model comparison, cut where clusters end.

    Parameters
    ----------
    family : str or AbstractFamily
        ``"gaussian"``, ``"bernoulli"``, ``"categorical"``, ``"multinomial"``, ``"poisson"``, ``"mixed"`` (a product
        of families, one for each column, from its dtype), or a family with its prior.
    covariance : str
        For Gaussians: ``"full"``, ``"diag"`` or ``"spherical"``.
    prior : str
        Prior of the partition: ``"dp"`` (Dirichlet process), ``"nggp"`` (normalised generalised gamma: more, and
        smaller, clusters) or ``"nig"`` (the same with discount 1/2, the normalised inverse Gaussian process).
    concentration : float
        alpha of the prior: more clusters where it is larger.
    discount : float
        sigma of ``"nggp"``, in (0, 1).
    method : str
        ``"greedy"`` merges the best pair of all until one tree is left: about n^2 evidences, seconds for 2,000 rows,
        at most 5,000. ``"incremental"`` inserts one row after the other, in random order: a sketch of the greedy tree
        for many rows, time about n times the number of clusters. ``"auto"`` is greedy up to 2,000 rows.
    family_prior : mapping or None
        Hyperparameters of the family by name, instead of its documented defaults.
    n_jobs : int or None
        Threads of predictions; None takes every core.
    random_state : int, Generator, RandomState or None
        Seed of the order in which rows are inserted; greedy trees have no randomness.

    Attributes
    ----------
    linkage_ : (n - 1, 4) array
        The tree as scipy has it, for ``scipy.cluster.hierarchy.dendrogram`` and its kin. A node's height is the largest
        -log merge probability of itself and the nodes below: 0 is certain, and they never fall on the way to the root.
        Inside clusters they end at log 2, so that ``fcluster(linkage_, log(2), "distance")`` are the `labels_`.
    merge_probability_ : (n - 1,) array
        1/(1 + d) for each row of `linkage_`: posterior probability that all rows below the node are one cluster, given
        that they share none with other rows, over all partitions that the tree can be cut into.
    labels_ : (n,) int array
        Clusters, numbered as they appear: the largest nodes with a merge probability of 1/2 or more.
    n_clusters_ : int
        How many there are.
    log_evidence_ : float
        Lower bound of log p(X): log of the sum of p(X, partition) over all partitions that the tree can be cut into.
    prior_ : DirichletProcess or NormalisedGeneralisedGamma
        The prior of the partition. Potentials of ``"nggp"`` are given u = n / (alpha sigma), the number of rows over
        the prior mean of the total mass; in `log_evidence_` u is integrated out.
    method_ : str
        ``"greedy"`` or ``"incremental"``: what `fit` did.
    n_features_in_, feature_names_in_
        Width and names of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3, 1, (30, 2)), rng.normal(3, 1, (30, 2))])
    >>> tree = BayesianHierarchicalClustering().fit(X)
    >>> tree.n_clusters_
    2
    """

    def __init__(
        self,
        *,
        family: str | AbstractFamily = "gaussian",
        covariance: Literal["full", "diag", "spherical"] = "full",
        prior: Literal["dp", "nggp", "nig"] = "dp",
        concentration: float = 1.0,
        discount: float = 0.5,
        method: Literal["auto", "greedy", "incremental"] = "auto",
        family_prior: Params | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.family = family
        self.covariance = covariance
        self.prior = prior
        self.concentration = concentration
        self.discount = discount
        self.method = method
        self.family_prior = family_prior
        self.n_jobs = n_jobs
        self.random_state = random_state

    _persisted = ("_components", "_schema", "_X", "_log_m")
    _X: Matrix  # the rows of the tree: later ones need their predictives
    _log_m: FloatArray  # (2n - 1,) evidence of each node

    def fit(self, X: TableLike, y: Any = None) -> Self:
        """Build the tree of the rows of X.

        Parameters
        ----------
        X : table of shape (n, d)
            Data: numpy, pandas, polars, sparse, or a path to csv, tsv, parquet, npy or npz.
        y : ignored
            Present for scikit-learn.

        Returns
        -------
        BayesianHierarchicalClustering
            self
        """
        _choice("prior", self.prior, PRIORS)
        _choice("method", self.method, METHODS)
        M = self._read(X, reset=True)
        n = M.shape[0]
        if n < 2:
            raise DataError(f"n_samples={n}: a tree needs at least two rows; add rows")
        method = self.method if self.method != "auto" else "greedy" if n <= AUTO_GREEDY else "incremental"
        if method == "greedy" and n > MOST_GREEDY:
            raise ParameterError(
                f"method='greedy' holds n_samples={n} squared distances; it takes at most {MOST_GREEDY} rows: use "
                "method='incremental' or 'auto', or fit a sample of the rows and predict the rest"
            )
        prior = self._partition(n)
        expected = DirichletProcess(prior.concentration).expected_n_clusters(n)
        rows = Rows(M, self._make_family(M, max(1, round(expected))))
        if rows.family.n_shared_parameters:
            raise ParameterError(
                f"clusters of a {type(rows.family).__name__} share parameters and have no evidence of their own; use "
                "covariance='full', 'diag' or 'spherical'"
            )
        tree, roots, key = bhc.empty_tree(n), np.arange(n), key_from(self.random_state)
        if method == "incremental":
            first, rest = np.split(step_rng(key, chain=0, sweep=0).permutation(n), [SAMPLE])
            first.sort()
            T = statistics(rows.taken(first), np.arange(first.size), first.size, self._engine())
            tree = bhc.grown(tree, first, T, rows.family.log_marginal, bhc.log_kappa(prior, n))
            roots = _inserted(rows, prior, tree, rest)
        self._keep(rows, prior, tree, roots)
        self.method_ = method
        return self

    def partial_fit(self, X: TableLike, y: Any = None) -> Self:
        """Insert rows into the tree, one after the other; the family and its prior stay as they are.

        The tree is taken apart where `labels_` are cut, rows are inserted into its parts, and these merge greedily.

        Parameters
        ----------
        X : table of shape (m, d)
            More rows; they are numbered after those that are there.
        y : ignored
            Present for scikit-learn.

        Returns
        -------
        BayesianHierarchicalClustering
            self
        """
        if not hasattr(self, "_components"):
            return self.fit(X)
        M = self._read(X, reset=False)
        rows = Rows(_stacked(self._X, M), self._components.for_rows(M).family)
        n, m = rows.n_rows, M.shape[0]
        prior = self._partition(n)
        tree = ibhc.with_room(self._tree(), m, bhc.log_kappa(prior, n))
        roots = _inserted(rows, prior, tree, np.arange(n - m, n))
        self._keep(rows, prior, tree, roots)
        return self

    def predict(self, X: TableLike) -> IntArray:
        """Cluster of the cut with the largest predictive weight, ``kappa(n_c + 1)/kappa(n_c) p(x | rows of c)``.

        Parameters
        ----------
        X : table of shape (m, d)
            Rows to label.

        Returns
        -------
        (m,) int array
            Labels as in `labels_`. No row opens a cluster of its own: `score_samples` finds strangers.
        """
        return self._best(X)

    def _partition(self, n: int) -> bhc.Prior:
        """The prior of n rows."""
        if self.prior == "dp":
            return DirichletProcess(self.concentration, shape=None)
        sigma = self.discount if self.prior == "nggp" else 0.5
        prior = NormalisedGeneralisedGamma(self.concentration, sigma, shape=None, learn_discount=False)
        return replace(prior, log_u=math.log(n) - math.log(prior.concentration * sigma))

    def _keep(self, rows: Rows, prior: bhc.Prior, tree: bhc.Tree, roots: IntArray) -> None:
        """Merge what is left, and learn from the tree."""
        n, family, engine = rows.n_rows, rows.family, self._engine()
        log_kappa = bhc.log_kappa(prior, n)
        S = statistics(rows, bhc.owners(tree, roots), len(roots), engine)
        tree, self.linkage_ = bhc.finished(bhc.grown(tree, roots, S, family.log_marginal, log_kappa), log_kappa)
        self.labels_ = _as_they_appear(bhc.cut(tree))
        sizes = np.bincount(self.labels_)
        S, log_w = statistics(rows, self.labels_, sizes.size, engine), np.log(sizes - prior.sigma)
        log_w -= math.log(n - sizes.size * prior.sigma)
        self._components = Components(family, family.mode_eta(S)[None], log_w[None], S)
        self._X, self._log_m = rows.X.copy(), tree.log_m
        self.n_clusters_, self.prior_ = int(sizes.size), prior
        self.merge_probability_ = expit(-tree.log_d[n:])
        self.log_evidence_ = bhc.log_bound(tree, prior, self.n_clusters_) + rows.log_base()

    def _tree(self) -> bhc.Tree:
        """The arrays of the tree; compiled code trusts them, and they may come from a file."""
        Z, n = self.linkage_, self._X.shape[0]
        sound = Z.shape == (n - 1, 4) and self._log_m.shape == (2 * n - 1,) and is_valid_linkage(Z) and is_monotonic(Z)
        if not (sound and np.isfinite(self._log_m).all()):
            raise DataError(
                "the arrays of the tree do not fit together: fit it again, or load another copy of the file"
            )
        return bhc.from_linkage(Z, self._log_m, bhc.log_kappa(self._partition(n), n))


def _inserted(rows: Rows, prior: bhc.Prior, tree: bhc.Tree, order: IntArray) -> IntArray:
    """The roots that are left when the tree has been cut into clusters and the rows in `order` were put into these."""
    n, most = rows.n_rows, min(rows.n_rows, MOST_GREEDY)
    law = law_of(rows)(ibhc.columns_for(n, most))
    forest = ibhc.forest_of(ibhc.pieces(tree), tree, most)
    ibhc.fill(law, tree, forest)
    if ibhc.insert(law, tree, forest, order, bhc.log_kappa(prior, n)) < order.size:
        raise DataError(
            f"more than {MOST_GREEDY} clusters: under this family_prior rows hardly ever are alike; use fewer "
            "columns, a wider prior or a smaller concentration"
        )
    return forest.roots[: forest.counts[ibhc.N_ROOTS]].copy()


def _stacked(above: Matrix, below: Matrix) -> Matrix:
    if sp.issparse(above) or sp.issparse(below):
        return sp.vstack([sp.csr_array(above), sp.csr_array(below)], format="csr")
    return np.concatenate([above, below])


def _as_they_appear(owner: IntArray) -> IntArray:
    """(n,): 0, 1, ... in the order of the first rows."""
    _, first, z = np.unique(owner, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[z]


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ParameterError(f"unknown {name} {value!r}; choose one of {', '.join(map(repr, choices))}")
