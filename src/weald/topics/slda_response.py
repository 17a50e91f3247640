"""What documents are labelled with: a number, or one of some classes; and the draw of its coefficients.

    numbers    y_d ~ N(w . zbar_d, sigma^2)                           (280), zbar_d the shares of topics in the tokens
    classes    p(y_d = c) = exp(w_c . zbar_d) / sum_b exp(w_b . zbar_d);    of two classes, w_0 = 0
    prior      w ~ N(0, tau^2) for each coefficient,   sigma^2, tau^2 ~ inverse gamma

Numbers are centred and scaled before, so that their units do not matter; zbar sums to one, so w holds the intercept.

Given zbar the coefficients of numbers are Gaussian. Those of a class are so given Polya-Gamma variables: with
psi = w_c . zbar - xi, xi the log of the sum over the other classes, omega ~ PG(1, psi) makes the likelihood of w_c
Gaussian with precision omega. The variables are forgotten after each draw: the topics are drawn without them.

References: journal (003) (280)-(281); McAuliffe & Blei (2007), Supervised topic models; Polson, Scott, Windle (2013).

    >>> read_response(np.array([1.0, 3.0, np.nan]), 3, "gaussian").y
    array([-1.,  1., nan])
    >>> read_response(np.array(["bad", "good"]), 2, "auto").classes.tolist()
    ['bad', 'good']
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import logsumexp
from sklearn.utils import column_or_1d

from weald._random import sweep_key
from weald._typing import Array, FloatArray
from weald.exceptions import DataError, ParameterError
from weald.topics.polya_gamma import polya_gamma

Kind = Literal["auto", "gaussian", "binary", "softmax"]
KINDS = ("auto", "gaussian", "binary", "softmax")
NOISE, SPREAD = (2.0, 0.5), (1.0, 1.0)  # shape and scale of the inverse gammas of sigma^2 and tau^2
LEAST_VARIANCE = 1e-12  # of noise and coefficients, in units of the response
UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class Response:
    """Labels of documents, as the sampler sees them.

    Parameters
    ----------
    y : (D,) array
        Standardised numbers, or codes of classes; NaN where unknown.
    classes : (C,) array or None
        Labels of classes; None for numbers.
    location, scale : float
        Of numbers: y = (given - location) / scale.
    """

    y: FloatArray
    classes: Array | None = None
    location: float = 0.0
    scale: float = 1.0

    @property
    def n_rows(self) -> int:
        """Rows of coefficients: one for numbers, else one for each class, the first of two classes being zero."""
        return 1 if self.classes is None else len(self.classes)

    @property
    def first(self) -> int:
        """First row of coefficients that is free."""
        return int(self.n_rows == 2)

    @property
    def kind(self) -> str:
        """As `response` names it."""
        if self.classes is None:
            return "gaussian"
        return "binary" if len(self.classes) == 2 else "softmax"

    def in_units(self, w: FloatArray) -> FloatArray:
        """Coefficients (..., R, K) as people read them: (..., K) of numbers and of two classes, else (..., C, K)."""
        if self.kind == "softmax":
            return w - w.mean(axis=-2, keepdims=True)
        return w[..., 1, :] if self.kind == "binary" else self.location + self.scale * w[..., 0, :]

    def zeros(self, n_topics: int) -> FloatArray:
        """(R, K): coefficients that say nothing."""
        return np.zeros((self.n_rows, n_topics))

    def draw(self, w: FloatArray, sigma2: float, tau2: float, zbar: FloatArray, rng: np.random.Generator) -> Drawn:
        """Coefficients, then the two variances, each from its conditional.

        Parameters
        ----------
        w : (R, K) array
        sigma2, tau2 : float
            As they stand.
        zbar : (D, K) array
            Shares of topics; documents without tokens have zeros, and no say.
        rng : Generator
        """
        told = ~np.isnan(self.y) & zbar.any(axis=1)
        Z, y = zbar[told], self.y[told]
        if self.classes is None:
            w = _gaussian(Z.T @ Z / sigma2, Z.T @ y / sigma2, tau2, rng)[None]
            sigma2 = inverse_gamma(NOISE, len(y), float(np.sum((y - Z @ w[0]) ** 2)), rng)
        else:
            w = self._draw_classes(w, tau2, Z, y, rng)
        free = w[self.first :]
        return Drawn(w, sigma2, inverse_gamma(SPREAD, free.size, float(np.sum(free**2)), rng))

    def log_likelihood(self, w: FloatArray, sigma2: float, zbar: FloatArray) -> float:
        """Log p(y | zbar, w), of standardised numbers or of classes."""
        told = ~np.isnan(self.y) & zbar.any(axis=1)
        psi, y = zbar[told] @ w.T, self.y[told]
        if self.classes is None:
            return float(-0.5 * np.sum((y - psi[:, 0]) ** 2 / sigma2 + math.log(2.0 * math.pi * sigma2)))
        return float(np.sum(psi[np.arange(len(y)), y.astype(np.int64)] - logsumexp(psi, axis=1)))

    def _draw_classes(
        self, w: FloatArray, tau2: float, Z: FloatArray, y: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """One class after the other, given all others."""
        w = w.copy()
        psi = Z @ w.T
        for c in range(self.first, self.n_rows):
            xi = logsumexp(np.delete(psi, c, axis=1), axis=1)
            omega = polya_gamma(psi[:, c] - xi, sweep_key(rng))
            w[c] = _gaussian((Z.T * omega) @ Z, Z.T @ ((y == c) - 0.5 + omega * xi), tau2, rng)
            psi[:, c] = Z @ w[c]
        return w


@dataclass(frozen=True, eq=False)
class Drawn:
    """Coefficients w (R, K), and the variances of noise and of coefficients."""

    w: FloatArray
    sigma2: float
    tau2: float


def _gaussian(precision: FloatArray, shift: FloatArray, tau2: float, rng: np.random.Generator) -> FloatArray:
    """(K,): a draw of N(P^-1 shift, P^-1), P = precision + 1 / tau2."""
    U = cholesky(precision + np.eye(len(shift)) / tau2)
    return np.asarray(cho_solve((U, False), shift) + solve_triangular(U, rng.standard_normal(len(shift))))


def inverse_gamma(prior: tuple[float, float], n: int, squares: float, rng: np.random.Generator) -> float:
    """A variance given n centred Gaussian values and the sum of their squares."""
    shape, scale = prior
    return max(LEAST_VARIANCE, (scale + 0.5 * squares) / float(rng.standard_gamma(shape + 0.5 * n)))


def read_response(y: Any, n_documents: int, kind: str) -> Response:
    """Labels as they come -> labels as the sampler sees them.

    Parameters
    ----------
    y : (D,) array
        Numbers, NaN where unknown; or classes, -1 (in text: None) where unknown.
    n_documents : int
        D.
    kind : str
        ``"gaussian"``, ``"binary"``, ``"softmax"``, or ``"auto"``: text and truth values are classes, so are numbers of
        which there are only two; other numbers are numbers.
    """
    if kind not in KINDS:
        raise ParameterError(f"response must be one of {KINDS}, got {kind!r}")
    if y is None:
        raise DataError("SupervisedLDA requires y to be passed, but the target y is None; for topics alone use LDA")
    labels = column_or_1d(y, warn=True)
    if labels.shape[0] != n_documents:
        raise DataError(f"y has {labels.shape[0]} labels for {n_documents} documents: pass one for each row of X")
    chosen = _kind_of(labels) if kind == "auto" else kind
    return _numbers(labels) if chosen == "gaussian" else _classes(labels, chosen)


def _kind_of(labels: Array) -> str:
    if labels.dtype.kind in "iuf":
        return "gaussian" if np.unique(labels[~_missing(labels)]).size != 2 else "binary"
    if labels.dtype.kind == "O" and all(_is_number(label) for label in labels):
        return _kind_of(labels.astype(np.float64))
    return "binary" if len(set(labels[~_missing(labels)].tolist())) == 2 else "softmax"


def _is_number(label: Any) -> bool:
    return label is None or (isinstance(label, int | float | np.number) and not isinstance(label, bool))


def _missing(labels: Array) -> Array:
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    return np.array([label is None or label != label for label in labels.tolist()], bool)


def _numbers(labels: Array) -> Response:
    try:
        y = labels.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"y must hold numbers for response='gaussian' ({error}); for classes use 'softmax'") from error
    if np.isinf(y).any():
        raise DataError("y contains infinity: remove or clip it; use NaN for documents without a label")
    told = ~np.isnan(y)
    if not told.any():
        raise DataError("y labels no document: all are NaN; label some, or use LDA")
    location, scale = float(y[told].mean()), float(y[told].std())
    if not scale > np.finfo(np.float64).eps * max(1.0, abs(location)) * 16:
        scale = max(1.0, abs(location))  # constant: any scale will do
    return Response((y - location) / scale, None, location, scale)


def _classes(labels: Array, kind: str) -> Response:
    unknown = _missing(labels)
    if labels.dtype.kind == "O" and not any(isinstance(label, str) for label in labels):
        labels = np.array([UNKNOWN if gone else label for gone, label in zip(unknown, labels, strict=True)])
    if labels.dtype.kind in "if" and np.unique(labels[~unknown]).size > 2:
        unknown = unknown | (labels == UNKNOWN)
    if labels.dtype.kind == "f" and (labels[~unknown] != np.floor(labels[~unknown])).any():
        raise DataError("Unknown label type: continuous. Fractions are no classes: use response='gaussian'")
    classes, codes = np.unique(labels[~unknown], return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"y holds one class only, {classes.tolist()}: a classifier needs at least 2 classes")
    if kind == "binary" and len(classes) != 2:
        raise DataError(f"y has {len(classes)} classes: response='binary' takes two, use 'softmax'")
    y = np.full(len(labels), np.nan)
    y[~unknown] = codes
    return Response(y, classes)
