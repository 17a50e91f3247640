"""Simulators whose answer is known, and two real data sets that need no network.

Every simulator takes `rng` (a `numpy.random.Generator` or a seed) and returns a `Simulated`: the data X, the label z
of each row, and `truth`, the parameters that generated them by name.

    blobs       mu_k ~ N(0, I) rescaled to a mean nearest-centre distance of `separation`,  x | z ~ N(mu_z, I)
    mixture     z ~ Categorical(w),  x | z ~ p(x | eta_z) of any family of `weald.families`
    categories  theta_kj ~ Dirichlet(a),  x_j | z ~ Categorical(theta_zj)
    counts      phi_k ~ Dirichlet(a),  x | z ~ Multinomial(length, phi_z), as CSR
    topics      the same with a topic for each token: theta_d ~ Dirichlet(alpha),  z_i ~ theta_d

Cost: O(nd) time and memory; counts O(n length).

    >>> data = make_blobs_overlapping(1000, 2, 5, separation=4.0, rng=0)
    >>> data.X.shape, data.truth["means"].shape
    ((1000, 2), (5, 2))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weald._typing import Array, FloatArray, IntArray
from weald.exceptions import ParameterError
from weald.families.base import AbstractFamily

Rng = np.random.Generator | int


@dataclass(frozen=True)
class Simulated:
    """Data with their known answer.

    Parameters
    ----------
    X : array, sparse matrix or dict of arrays, n rows
        The data.
    z : array of shape (n,)
        The component that generated each row.
    truth : mapping of str to array
        The parameters that generated the data.
    """

    X: Any
    z: IntArray
    truth: Mapping[str, Array]


@dataclass(frozen=True)
class Demo:
    """A real table with known classes.

    Parameters
    ----------
    X : array of shape (n, d)
        The measurements.
    names : tuple of str
        The names of the d columns.
    z : array of shape (n,)
        The class of each row.
    classes : tuple of str
        The names of the classes.
    """

    X: FloatArray
    names: tuple[str, ...]
    z: IntArray
    classes: tuple[str, ...]


def make_blobs_overlapping(n: int, d: int, k: int, separation: float, rng: Rng, dtype: Any = np.float64) -> Simulated:
    """Unit-variance Gaussian blobs whose centres lie `separation` standard deviations apart.

    Parameters
    ----------
    n, d, k : int
        Rows, columns and blobs.
    separation : float
        The mean distance of a centre to its nearest other centre.
    rng : Generator or int
        Randomness.
    dtype : dtype
        float32 or float64.

    Returns
    -------
    Simulated
        X of shape (n, d); truth: means (k, d), weights (k,).
    """
    _positive(n=n, d=d, k=k)
    rng = np.random.default_rng(rng)
    means = rng.standard_normal((k, d))
    if k > 1:
        means *= separation / nearest_distances(means).mean()
    z = rng.integers(0, k, size=n)
    X = rng.standard_normal((n, d), dtype=dtype)
    X += means.astype(dtype)[z]
    return Simulated(X, z, {"means": means, "weights": np.full(k, 1.0 / k)})


def nearest_distances(means: FloatArray) -> FloatArray:
    """(k, d) -> (k,): the distance of each centre to its nearest other centre."""
    from sklearn.neighbors import NearestNeighbors

    distances, _ = NearestNeighbors(n_neighbors=1).fit(means).kneighbors()
    return np.asarray(distances[:, 0])


def make_mixture(family: AbstractFamily, eta: Array | None, log_w: Array, n: int, rng: Rng) -> Simulated:
    """Rows from a mixture of any family.

    Parameters
    ----------
    family : AbstractFamily
        The likelihood (and the prior, where `eta` is None).
    eta : array of shape (K, p) or None
        Natural parameters of the components; None draws them from the prior.
    log_w : array of shape (K,)
        Log weights, normalised here.
    n : int
        Rows.
    rng : Generator or int
        Randomness.

    Returns
    -------
    Simulated
        X of shape (n, d); truth: eta (K, p), weights (K,), and the parameters under the family's own names.
    """
    _positive(n=n)
    rng = np.random.default_rng(rng)
    log_w = np.asarray(log_w, np.float64)
    if eta is None:
        eta = family.sample_eta(np.zeros((len(log_w), family.width)), rng)
    if len(eta) != len(log_w):
        raise ParameterError(f"eta has {len(eta)} components but log_w has {len(log_w)}")
    weights = np.exp(log_w - np.logaddexp.reduce(log_w))
    z = rng.choice(len(weights), size=n, p=weights)
    return Simulated(family.sample_x(eta[z], rng), z, {"eta": eta, "weights": weights, **family.named(eta)})


def make_categories(n: int, k: int, d: int, n_levels: int, rng: Rng, concentration: float = 0.3) -> Simulated:
    """Categorical codes; a small `concentration` makes clusters distinct.

    Parameters
    ----------
    n, k, d, n_levels : int
        Rows, clusters, columns, and levels of each column.
    rng : Generator or int
        Randomness.
    concentration : float
        Parameter of the symmetric Dirichlet over levels.

    Returns
    -------
    Simulated
        X of shape (n, d) with codes 0..n_levels-1; truth: probabilities (k, d, n_levels), weights (k,).
    """
    _positive(n=n, k=k, d=d, n_levels=n_levels, concentration=concentration)
    rng = np.random.default_rng(rng)
    theta = rng.dirichlet(np.full(n_levels, concentration), size=(k, d))
    z = rng.integers(0, k, size=n)
    below = np.cumsum(theta, axis=2)[:, :, :-1]
    X = (rng.random((n, d, 1)) >= below[z]).sum(axis=2)
    return Simulated(X, z, {"probabilities": theta, "weights": np.full(k, 1.0 / k)})


def make_counts(n: int, k: int, vocabulary: int, length: int, rng: Rng, concentration: float = 0.05) -> Simulated:
    """Sparse counts: documents of `length` words over a vocabulary, one topic each.

    Parameters
    ----------
    n, k, vocabulary, length : int
        Documents, clusters, words in the vocabulary, and words in each document.
    rng : Generator or int
        Randomness.
    concentration : float
        Parameter of the symmetric Dirichlet over words.

    Returns
    -------
    Simulated
        X, CSR of shape (n, vocabulary); truth: probabilities (k, vocabulary), weights (k,).
    """
    from scipy.sparse import csr_array

    _positive(n=n, k=k, vocabulary=vocabulary, length=length, concentration=concentration)
    rng = np.random.default_rng(rng)
    phi = rng.dirichlet(np.full(vocabulary, concentration), size=k)
    z = rng.integers(0, k, size=n)
    words = np.empty((n, length), np.int64)
    for j in range(k):
        below = np.cumsum(phi[j])[:-1]
        words[z == j] = np.searchsorted(below, rng.random(((z == j).sum(), length)), side="right")
    X = csr_array(
        (np.ones(n * length, np.int64), words.ravel(), np.arange(0, n * length + 1, length)), shape=(n, vocabulary)
    )
    X.sum_duplicates()
    return Simulated(X, z, {"probabilities": phi, "weights": np.full(k, 1.0 / k)})


def make_topics(
    n: int, k: int, vocabulary: int, length: int, rng: Rng, alpha: float = 0.1, eta: float = 0.05
) -> Simulated:
    """A corpus from the model of latent Dirichlet allocation: every document mixes topics.

    Parameters
    ----------
    n, k, vocabulary, length : int
        Documents, topics, words in the vocabulary, and tokens in each document.
    rng : Generator or int
        Randomness.
    alpha, eta : float
        Parameters of the symmetric Dirichlets over the topics of a document and the words of a topic.

    Returns
    -------
    Simulated
        X, CSR of shape (n, vocabulary); z, the most probable topic of each document; truth: topics (k, vocabulary),
        proportions (n, k).
    """
    from scipy.sparse import csr_array

    _positive(n=n, k=k, vocabulary=vocabulary, length=length, alpha=alpha, eta=eta)
    rng = np.random.default_rng(rng)
    phi, theta = rng.dirichlet(np.full(vocabulary, eta), size=k), rng.dirichlet(np.full(k, alpha), size=n)
    n_dk = rng.multinomial(length, theta)
    document, topic = np.repeat(np.arange(n), length), np.repeat(np.tile(np.arange(k), n), n_dk.ravel())
    words = np.empty(n * length, np.int64)
    for j in range(k):
        words[topic == j] = rng.choice(vocabulary, size=int(n_dk[:, j].sum()), p=phi[j])
    X = csr_array((np.ones(n * length, np.int64), (document, words)), shape=(n, vocabulary))
    X.sum_duplicates()
    return Simulated(X, theta.argmax(axis=1), {"topics": phi, "proportions": theta})


def make_mixed_table(n: int, k: int, rng: Rng, missing: float = 0.05) -> Simulated:
    """A customer table with columns of every type and missing cells.

    Parameters
    ----------
    n, k : int
        Rows and clusters.
    rng : Generator or int
        Randomness.
    missing : float
        Share of missing cells (NaN or None) in the columns that may miss: income, height, city.

    Returns
    -------
    Simulated
        X, dict of columns: income, height (float), visits (int), member (bool), city, plan (text);
        truth: means (k, 2), rates (k,), members (k,), cities (k, 4), plans (k, 3), weights (k,).
    """
    _positive(n=n, k=k)
    if not 0 <= missing < 1:
        raise ParameterError(f"missing must be in [0, 1), got {missing}")
    rng = np.random.default_rng(rng)
    levels = {"city": ("Ambry", "Birch", "Coombe", "Dene"), "plan": ("basic", "plus", "pro")}
    truth = {
        "means": rng.normal([30.0, 170.0], [12.0, 10.0], size=(k, 2)),
        "rates": rng.gamma(2.0, 4.0, size=k),
        "members": rng.beta(0.5, 0.5, size=k),
        "cities": rng.dirichlet(np.full(4, 0.4), size=k),
        "plans": rng.dirichlet(np.full(3, 0.4), size=k),
        "weights": np.full(k, 1.0 / k),
    }
    z = rng.integers(0, k, size=n)
    income, height = (truth["means"][z] + rng.standard_normal((n, 2)) * [3.0, 4.0]).T
    columns: dict[str, Array] = {
        "income": np.where(rng.random(n) < missing, np.nan, income),
        "height": np.where(rng.random(n) < missing, np.nan, height),
        "visits": rng.poisson(truth["rates"][z]),
        "member": rng.random(n) < truth["members"][z],
        "city": _levels(levels["city"], truth["cities"][z], rng),
        "plan": _levels(levels["plan"], truth["plans"][z], rng),
    }
    columns["city"][rng.random(n) < missing] = None
    return Simulated(columns, z, truth)


def load_demo() -> Demo:
    """Chemical analyses of 178 wines of three cultivars, as bundled with scikit-learn."""
    from sklearn.datasets import load_wine

    bunch = load_wine()
    classes = tuple(f"cultivar {i + 1}" for i in range(3))
    return Demo(np.asarray(bunch.data, np.float64), tuple(bunch.feature_names), np.asarray(bunch.target), classes)


def load_galaxies() -> FloatArray:
    """Velocities of 82 galaxies in the Corona Borealis region.

    Returns
    -------
    (82,) array
        In 1,000 km/s, in increasing order. M. Postman, J. Huchra, M. Geller, Astronomical Journal 92 (1986), 1238-1247;
        K. Roeder, JASA 85 (1990), 617-624, made them the example of mixtures of unknown size.
    """
    return np.array([int(word) for word in _GALAXIES.split()]) / 1000.0


_GALAXIES = """
 9172  9350  9483  9558  9775 10227 10406 16084 16170 18419 18552 18600 18927 19052 19070 19330 19343 19349 19440 19473
19529 19541 19547 19663 19846 19856 19863 19914 19918 19973 19989 20166 20175 20179 20196 20215 20221 20415 20629 20795
20821 20846 20875 20986 21137 21492 21701 21814 21921 21960 22185 22209 22242 22249 22314 22374 22495 22746 22747 22888
22914 23206 23241 23263 23484 23538 23542 23666 23706 23711 24129 24285 24289 24366 24717 24990 25633 26960 26995 32065
32789 34279
"""


def _levels(names: tuple[str, ...], probabilities: FloatArray, rng: np.random.Generator) -> Array:
    """(n, L) probabilities -> (n,) object array of level names."""
    below = np.cumsum(probabilities, axis=1)[:, :-1]
    cells: Array = np.array(names, object)[(rng.random((len(below), 1)) >= below).sum(axis=1)]
    return cells


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ParameterError(f"{name} must be positive, got {value}")
