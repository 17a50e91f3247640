"""Prediction from fitted components, shared by mixtures and naive Bayes.

One pass of `Components` over tiles of rows: memory does not grow with the number of rows beyond the answer.
"""

from __future__ import annotations

from typing import Any

from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

from weald._typing import Array, FloatArray, IntArray, TableLike
from weald.base import AbstractTableEstimator
from weald.mixtures.components import Components, probabilities


class AbstractComponentEstimator(AbstractTableEstimator):
    """An estimator whose fitted form is a set of components."""

    _components: Components

    def score_samples(self, X: TableLike) -> FloatArray:
        """Log predictive density of each row.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows to score: numpy, pandas, polars, sparse, or a path.

        Returns
        -------
        (n,) array
            log p(x | data), parameters averaged over the posterior where there is one.
        """
        return self._map(lambda joint: logsumexp(joint, axis=1), X)

    def predict_proba(self, X: TableLike) -> FloatArray:
        """Probability of each component (class) for each row.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows to label.

        Returns
        -------
        (n, K) array
            Rows sum to one; classes in the order of ``classes_``; averaged over the posterior where there is one.
        """
        return self._map(probabilities, X)

    def _best(self, X: TableLike) -> IntArray:
        check_is_fitted(self, "_components")
        return self._components.best(self._read(X, reset=False), self._engine())

    def _map(self, function: Any, X: TableLike) -> Array:
        check_is_fitted(self, "_components")
        return self._components.map(function, self._read(X, reset=False), self._engine())
