"""Naive Bayes: a mixture whose labels are known.

    p(x, y = c) = w_c prod_j p(x_j | eta_jc)         columns independent given the class (journal (64)-(75))

Statistics of each class are sums over its rows, so fitting is one pass and `partial_fit` is exact. Rows with
``y = -1`` have an unknown class (as long as two others are named): their class probabilities are inferred by EM or
variational Bayes over them alone, with the known rows held fixed. Prediction plugs in the posterior mode, or
integrates the parameters out.

    >>> from weald.datasets import load_demo
    >>> data = load_demo()
    >>> bool(NaiveBayes().fit(data.X, data.z).score(data.X, data.z) > 0.95)
    True
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from weald._random import key_from
from weald._typing import Array, FloatArray, IntArray, Params, TableLike
from weald._validate import check_amount, check_count, weights_for
from weald.assign import ExactAssignment, Rows
from weald.assign.base import statistics
from weald.exceptions import DataError, ParameterError, Status, StatusWarning
from weald.families.base import AbstractFamily
from weald.inference.run import run
from weald.mixtures.components import Components
from weald.mixtures.kernels import RULES, MixtureKernel, Model
from weald.mixtures.predictor import AbstractComponentEstimator
from weald.mixtures.verdict import of_optimiser, stopping
from weald.partitions import FiniteDirichlet

UNKNOWN = -1
KNOWN = Status(message="every class is known: one pass")


class NaiveBayes(ClassifierMixin, AbstractComponentEstimator):
    """Naive Bayes classifier for any family, with missing cells and missing labels.

    Parameters
    ----------
    family : str or AbstractFamily
        ``"gaussian"`` (columns independent), ``"bernoulli"``, ``"categorical"``, ``"multinomial"``, ``"poisson"`` or
        ``"mixed"`` (from the dtypes of the columns).
    inference : str
        ``"map"`` plugs in the posterior mode of the parameters, ``"posterior"`` integrates them out.
    weight_concentration : float
        a of the Dirichlet prior of class weights; 0 takes the frequencies of the classes.
    prior : mapping or None
        Hyperparameters of the family by name, such as ``{"concentration": 2.0}`` (add-one smoothing).
    max_iter, tol : int, float
        For rows of unknown class: most sweeps, and the rise of the objective per row at which to stop.
    n_jobs : int or None
        Threads; None takes every core.

    Attributes
    ----------
    classes_ : (K,) array
        Class labels.
    class_count_ : (K,) array
        Weight of the rows of each class (expected weight where the class was unknown).
    weights_ : (K,) array
        Class probabilities.
    parameters_ : dict of str to (K, ...) array
        Parameters of each class in the units of the data.
    n_iter_ : int
        Passes over the data: 1 where every class is known.
    status_ : Status
        May the fit be trusted, and if not, what to do.
    n_features_in_, feature_names_in_
        Width and names of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> import weald
    >>> X = np.array([[1, 0], [1, 1], [0, 1], [0, 1]])
    >>> weald.NaiveBayes(family="bernoulli").fit(X, ["a", "a", "b", "b"]).predict([[1, 0]])
    array(['a'], dtype='<U1')
    """

    covariance = "diag"

    def __init__(
        self,
        family: str | AbstractFamily = "gaussian",
        *,
        inference: Literal["map", "posterior"] = "map",
        weight_concentration: float = 0.0,
        prior: Params | None = None,
        max_iter: int = 100,
        tol: float = 1e-4,
        n_jobs: int | None = None,
    ) -> None:
        self.family = family
        self.inference = inference
        self.weight_concentration = weight_concentration
        self.prior = prior
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs

    _persisted = ("_components", "_schema", "_S")
    _S: FloatArray

    def fit(self, X: TableLike, y: Any, sample_weight: Array | None = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : table of shape (n, d)
            Data: numpy, pandas, polars, sparse, or a path.
        y : (n,) array
            Class of each row; -1 where it is unknown (if there are at least two other classes).
        sample_weight : (n,) array, optional
            Weight of each row.

        Returns
        -------
        NaiveBayes
            self
        """
        self._check_parameters()
        M = self._read(X, reset=True)
        classes, codes = _split(y, M.shape[0])
        self.classes_ = classes
        weight = weights_for(sample_weight, M)
        family = self._make_family(M, classes.size, weight)
        S = statistics(Rows(M, family, weight), codes, classes.size, self._engine())
        self.n_iter_, self.status_ = 1, KNOWN
        if (codes == UNKNOWN).any():
            S = self._infer_unknown(Rows(M, family, weight, codes), S)
        self._keep(family, S)
        return self

    def partial_fit(self, X: TableLike, y: Any, classes: Any = None, sample_weight: Array | None = None) -> Self:
        """Add a batch of labelled rows: the same as one fit to all batches, for centring and prior of the first.

        Parameters
        ----------
        X : table of shape (n, d)
            A batch of rows.
        y : (n,) array
            Class of each row; all known.
        classes : (K,) array
            All classes that will ever occur; needed in the first call.
        sample_weight : (n,) array, optional
            Weight of each row.

        Returns
        -------
        NaiveBayes
            self
        """
        first = not hasattr(self, "_S")
        self._check_parameters()
        if first and classes is None:
            raise ParameterError("the first call of partial_fit needs classes=, all labels that will ever occur")
        M = self._read(X, reset=first)
        if first:
            self.classes_ = np.unique(classes)
        labels = column_or_1d(y)
        if labels.shape[0] != M.shape[0]:
            raise DataError(f"y has {labels.shape[0]} labels for {M.shape[0]} rows")
        codes = np.searchsorted(self.classes_, labels).clip(0, self.classes_.size - 1)
        if (self.classes_[codes] != labels).any():
            raise DataError(f"y has labels that are not in classes {self.classes_.tolist()}")
        weight = weights_for(sample_weight, M)
        family = self._make_family(M, self.classes_.size, weight) if first else self._components.for_rows(M).family
        S = statistics(Rows(M, family, weight), codes.astype(np.int32), self.classes_.size, self._engine())
        self.n_iter_, self.status_ = 1, KNOWN
        self._keep(family, S if first else S + self._seen(family))
        return self

    def predict(self, X: TableLike) -> Array:
        """Most probable class of each row.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows to classify.

        Returns
        -------
        (n,) array of labels
        """
        best = self._best(X)
        return np.asarray(self.classes_[best])

    def predict_log_proba(self, X: TableLike) -> FloatArray:
        """Log probability of each class, in the order of `classes_`.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows to classify.

        Returns
        -------
        (n, K) array
        """
        return self._map(lambda joint: joint - logsumexp(joint, axis=1, keepdims=True), X)

    def score(self, X: TableLike, y: Any, sample_weight: Array | None = None) -> float:  # type: ignore[override]
        """Accuracy on X and y (the log density of rows is `score_samples`).

        Parameters
        ----------
        X : table of shape (n, d)
            Rows to classify.
        y : (n,) array
            Their classes.
        sample_weight : (n,) array, optional
            Weight of each row.

        Returns
        -------
        float
        """
        return float(ClassifierMixin.score(self, X, y, sample_weight))

    def _infer_unknown(self, rows: Rows, S: FloatArray) -> FloatArray:
        rule = RULES["vb" if self.inference == "posterior" else "em"]
        model = Model(rows.family, self._weights_prior(S.shape[0]))
        kernel = MixtureKernel(model, rows, rule, ExactAssignment(), self._engine(), lambda rng: S)
        stop = stopping(rule, rows.total_weight, self.tol)
        [chain] = run(kernel, key=key_from(0), sweeps=self.max_iter, stop=stop)
        trace = chain.stats["objective"]
        arrived = stopping(rule, rows.total_weight, self.tol)(
            {name: values.tolist() for name, values in chain.stats.items()}
        )
        self.n_iter_ = trace.size
        self.status_ = of_optimiser(trace, arrived=arrived, rises=True, n_rows=rows.total_weight)
        if not self.status_.ok:
            warnings.warn(str(self.status_), StatusWarning, stacklevel=3)
        return np.asarray(chain.state.S)

    def _seen(self, family: AbstractFamily) -> FloatArray:
        """Statistics of earlier batches in the layout of `family`, which the first missing cell widens."""
        narrow = self._components.family
        return self._S if narrow.width == family.width else narrow.widen_S(self._S)

    def _keep(self, family: AbstractFamily, S: FloatArray) -> None:
        prior = self._weights_prior(S.shape[0])
        self._S = S
        eta, log_w = family.mode_eta(S), prior.mode_log_w(S[:, -1])
        integrated = self.inference == "posterior"
        self._components = Components(family, eta[None], log_w[None], S if integrated else None)
        self.parameters_ = family.named(eta)
        self.weights_ = np.exp(log_w)
        self.class_count_ = S[:, -1].copy()

    def _weights_prior(self, n_classes: int) -> FiniteDirichlet:
        return FiniteDirichlet(n_classes, self.weight_concentration)

    def _check_parameters(self) -> None:
        if self.inference not in ("map", "posterior"):
            raise ParameterError(f"inference must be 'map' or 'posterior', got {self.inference!r}")
        check_count("max_iter", self.max_iter)
        check_amount("tol", self.tol)
        check_amount("weight_concentration", self.weight_concentration)
        self._engine()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_components")


def _split(y: Any, n_rows: int) -> tuple[Array, IntArray]:
    """Classes, and the code of each row: -1 where the class is unknown.

    Labels -1 and one other are two classes, as everywhere in scikit-learn: nothing could be learned of a single one.
    """
    if y is None:
        raise DataError(
            "NaiveBayes requires y to be passed, but the target y is None; use -1 for rows of unknown class"
        )
    labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise DataError("y contains NaN or infinity; use -1 for rows of unknown class")
    check_classification_targets(labels)
    if labels.shape[0] != n_rows:
        raise DataError(f"y has {labels.shape[0]} labels for {n_rows} rows")
    unknown = np.zeros(n_rows, bool)
    if labels.dtype.kind in "if" and np.unique(labels).size > 2:
        unknown = labels == UNKNOWN
    classes, codes = np.unique(labels[~unknown], return_inverse=True)
    out = np.full(n_rows, UNKNOWN, np.int32)
    out[~unknown] = codes
    return classes, out
