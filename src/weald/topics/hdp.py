"""The hierarchical Dirichlet process topic model: LDA that finds the number of topics.

    G_0 ~ DP(gamma, Dirichlet(eta)),    G_d ~ DP(alpha, G_0),    phi_dn ~ G_d,    w_dn ~ phi_dn            (30)-(31)

Documents share the topics of G_0, of which there is no end; a corpus makes use of some. By Gibbs sampling
(`weald.topics.hdp_gibbs`, with moves of whole topics, `weald.topics.hdp_moves`) or by stochastic variational inference
for streams (`weald.topics.hdp_svi`). This file is their scikit-learn face.

A sampler that is right has topics of a few tokens that come and go. Topics that count are the largest ones that
together hold 99 % of the tokens: of a draw for the posterior of their number, of averages for `components_`.

    >>> from weald.datasets import make_topics
    >>> X = make_topics(300, 4, 60, 50, 0).X
    >>> HDP(draws=40, warmup=40, random_state=0).fit(X).n_topics_                               # doctest: +SKIP
    4
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from weald import __version__
from weald._progress import Callback
from weald._random import key_from
from weald._typing import FloatArray, IntArray, PathLike, RandomState, TableLike
from weald._validate import check_amount, check_count
from weald.base import fingerprint_of
from weald.exceptions import ParameterError, StatusWarning
from weald.persist import read
from weald.posterior import Posterior
from weald.topics.base import AbstractTopicModel
from weald.topics.corpus import Corpus, read_corpus
from weald.topics.hdp_gibbs import START_ETA, Prior, gibbs
from weald.topics.hdp_svi import SVIRule, SVIState, followed, svi, topics_of
from weald.topics.outcome import Learnt

INFERENCES = ("gibbs", "svi")
MAX_TOPICS = {"gibbs": 2_000, "svi": 150}
ETA_PRIOR = (1.0, 1.0)
LEVEL = 0.95


def _takes_batches(hdp: HDP) -> bool:
    if hdp.inference == "svi":
        return True
    raise AttributeError(f"partial_fit needs inference='svi', not {hdp.inference!r}: fit all documents at once")


class HDP(AbstractTopicModel):
    """Topic model that finds the number of topics, with its uncertainty.

    Parameters
    ----------
    inference : str
        ``"gibbs"`` (draws from the posterior: the best topics, and an interval for their number) or ``"svi"``
        (stochastic variational inference: mini-batches, streams; one number of topics).
    alpha, gamma : float or tuple of two floats
        Concentrations: the larger alpha, the more topics in a document; the larger gamma, the more in the corpus. A
        pair is shape and rate of a Gamma prior, and the value is learned; a float is kept.
    eta : float or None
        Dirichlet parameter of the words of a topic: the smaller, the fewer words has a topic. None learns it.
    max_topics : int or None
        gibbs: a chain with more topics is stopped, and `status_` says what to do (None: 2,000). svi: truncation K of
        the corpus (None: 150).
    document_topics : int
        svi: truncation T, how many topics a document can have.
    draws, warmup : int or None
        gibbs: sweeps kept of each chain, and sweeps before them; None goes by the number of tokens.
    chains : int
        gibbs: independent chains.
    max_iter : int
        svi: most passes over the corpus.
    tol : float
        svi: passes end when the bound per token rises by less.
    batch_size : int or None
        svi: documents of a batch; None takes all of them at once, and then the bound never falls.
    learning_offset, learning_decay : float
        svi: batch t has the weight (learning_offset + t) ** -learning_decay.
    n_jobs : int or None
        Threads; None takes every core. Results do not depend on it.
    random_state : int, Generator, RandomState or None
        Seed.

    Attributes
    ----------
    n_topics_ : int
        Number of rows of `components_`: the fewest topics that hold 99 % of the tokens, sizes being averages.
    n_topics_interval_ : tuple of two ints
        95 % interval of the fewest topics that hold 99 % of the tokens of a draw (equal-tailed).
    n_topics_posterior_ : tuple of two arrays
        Numbers of topics, and their posterior probabilities.
    components_ : (K, V) array
        Probability of each word in each topic, largest topic first.
    topic_sizes_ : (K,) array
        Share of the tokens of each topic, of those that count.
    alpha_ : (K,) array
        Mean of alpha beta_k. What is left, alpha times the weight of topics that do not count or are yet to come, is
        ignored by `transform`: new documents are mixtures of the topics shown.
    eta_ : float
        Mean Dirichlet parameter of the words.
    posterior_ : Posterior
        Draws ``"n_topics"``, ``"n_occupied"`` (with all small ones), ``"sizes"`` (sorted), ``"alpha"``, ``"gamma"``,
        ``"eta"``; trace of every sweep. Not after `partial_fit`.
    status_ : Status
        May the fit be trusted, and if not, what to do. Not after `partial_fit`.
    n_iter_ : int
        Sweeps, passes or batches.
    n_features_in_, feature_names_in_
        Size of the vocabulary, and its words where a table named them.

    Examples
    --------
    >>> import weald
    >>> X = weald.datasets.make_topics(200, 3, 50, 40, 0).X
    >>> weald.HDP(draws=30, warmup=60, chains=1, random_state=0).fit(X).n_topics_
    3
    """

    def __init__(
        self,
        *,
        inference: Literal["gibbs", "svi"] = "gibbs",
        alpha: float | tuple[float, float] = (1.0, 1.0),
        gamma: float | tuple[float, float] = (1.0, 1.0),
        eta: float | None = None,
        max_topics: int | None = None,
        document_topics: int = 15,
        draws: int | None = None,
        warmup: int | None = None,
        chains: int = 2,
        max_iter: int = 20,
        tol: float = 1e-3,
        batch_size: int | None = 256,
        learning_offset: float = 10.0,
        learning_decay: float = 0.7,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.inference = inference
        self.alpha = alpha
        self.gamma = gamma
        self.eta = eta
        self.max_topics = max_topics
        self.document_topics = document_topics
        self.draws = draws
        self.warmup = warmup
        self.chains = chains
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.learning_offset = learning_offset
        self.learning_decay = learning_decay
        self.n_jobs = n_jobs
        self.random_state = random_state

    _persisted = ("_topics", "_state")
    _state: SVIState | None

    def fit(
        self, X: TableLike, y: Any = None, *, callbacks: Sequence[Callback] = (), resume: PathLike | None = None
    ) -> Self:
        """Learn topics, and how many there are.

        Parameters
        ----------
        X : (n, V) matrix of counts
            How often each word occurs in each document, sparse or dense; whole numbers for gibbs.
        y : ignored
            Present for scikit-learn.
        callbacks : sequence of callables
            Told of every sweep or pass (`weald.Progress`, `weald.Checkpoint`, your own); True stops the fit.
        resume : path, optional
            A file written by `weald.Checkpoint` in a fit with the same data and parameters: go on from there.

        Returns
        -------
        HDP
            self
        """
        self._check_parameters()
        started = time.perf_counter()
        corpus = self._read(X, reset=True)
        key = key_from(self.random_state)
        how = {
            "callbacks": callbacks,
            "resume": None if resume is None else read(resume, "Snapshot"),
            "fingerprint": lambda: fingerprint_of(self, corpus=corpus),
        }
        self._report(self._infer(corpus, key, how), {"seed": int(key), "seconds": time.perf_counter() - started})
        if not self.status_.ok:
            warnings.warn(str(self.status_), StatusWarning, stacklevel=2)
        return self

    @available_if(_takes_batches)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: TableLike, y: Any = None, *, n_documents: float | None = None) -> Self:
        """Steps of stochastic variational inference from more documents; goes on from a fit, or starts here.

        Topics start from the first documents: make them many (2,000). Later ones may still fill spare topics.

        Parameters
        ----------
        X : (n, V) matrix of counts
            More documents.
        y : ignored
            Present for scikit-learn.
        n_documents : float, optional
            Size of the whole corpus; by default what has been seen so far.

        Returns
        -------
        HDP
            self
        """
        self._check_parameters()
        state = getattr(self, "_state", None)
        corpus = read_corpus(self, X, reset=state is None, whole=state is None, empty=state is not None)
        key = key_from(0 if self.random_state is None else self.random_state)
        self._state = followed(self._rule(), state, corpus, n_documents, key)
        topics, sizes = topics_of(self._state)
        self._learnt(topics, sizes)
        self.n_topics_, self.eta_, self.n_iter_ = topics.n_topics, self._state.eta, self._state.n_steps
        for name in {"posterior_", "status_", "n_topics_interval_"} & set(vars(self)):
            delattr(self, name)
        return self

    @property
    def n_topics_posterior_(self) -> tuple[IntArray, FloatArray]:
        """Numbers of topics, and their posterior probabilities."""
        check_is_fitted(self, "posterior_")
        values, counts = np.unique(self.posterior_.flat("n_topics"), return_counts=True)
        return values, counts / counts.sum()

    def _infer(self, corpus: Corpus, key: np.uint64, how: dict[str, Any]) -> Learnt:
        if self.inference == "svi":
            return svi(corpus, self._rule(), self.max_iter, self.tol, key, **how)
        alpha, gamma = self._values()
        return gibbs(
            corpus, prior=self._prior(), alpha=alpha, gamma=gamma, eta=START_ETA if self.eta is None else self.eta,
            most=self._most, draws=self.draws, warmup=self.warmup, chains=self.chains, key=key, **how,
        )  # fmt: skip

    def _prior(self) -> Prior:
        """What is learned, and how."""
        alpha, gamma = (tuple(map(float, x)) if isinstance(x, tuple) else (None, 1.0) for x in (self.alpha, self.gamma))
        return Prior(alpha, gamma, ETA_PRIOR if self.eta is None else (None, 1.0))  # type: ignore[arg-type]

    def _rule(self) -> SVIRule:
        alpha, gamma = self._values()
        return SVIRule(
            self._prior(), alpha, gamma, START_ETA if self.eta is None else self.eta, self._most,
            min(self.document_topics, self._most), self.batch_size, float(self.learning_offset),
            float(self.learning_decay), self._engine(),
        )  # fmt: skip

    def _values(self) -> tuple[float, float]:
        """Where alpha and gamma start: the prior mean, or the value that is kept."""
        first, second = (x[0] / x[1] if isinstance(x, tuple) else float(x) for x in (self.alpha, self.gamma))
        return first, second

    @property
    def _most(self) -> int:
        return MAX_TOPICS[self.inference] if self.max_topics is None else self.max_topics

    def _report(self, found: Learnt, attrs: dict[str, Any]) -> None:
        """Topics, their number, posterior and status."""
        self._learnt(found.topics, found.sizes)
        record = {**attrs, "weald": __version__, "inference": self.inference, "thin": found.thin, **found.attrs}
        self.status_, self._state = found.status, found.state
        self.posterior_ = Posterior(found.draws, found.stats, found.status, record, found.warmup)
        self.n_topics_ = found.topics.n_topics
        tails = np.quantile(self.posterior_.flat("n_topics"), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="nearest")
        self.n_topics_interval_ = int(tails[0]), int(tails[1])
        self.eta_ = float(found.draws["eta"].mean())
        self.n_iter_ = self.posterior_.n_sweeps

    def _check_parameters(self) -> None:
        if self.inference not in INFERENCES:
            raise ParameterError(f"inference must be one of {INFERENCES}, got {self.inference!r}")
        for name in ("chains", "max_iter", "document_topics"):
            check_count(name, getattr(self, name))
        for name, least in (("draws", 1), ("warmup", 0), ("max_topics", 2), ("batch_size", 1)):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), f"None or an int of at least {least}", least=least)
        for name in ("tol", "learning_offset", "learning_decay"):
            check_amount(name, getattr(self, name))
        if not 0.5 < self.learning_decay <= 1 or self.learning_offset < 1:
            raise ParameterError(
                "learning_decay must be in (0.5, 1] and learning_offset at least 1, for steps that settle"
            )
        for name in ("alpha", "gamma", *(("eta",) if self.eta is not None else ())):
            value = getattr(self, name)
            parts = value if isinstance(value, tuple) and name != "eta" else (value,)
            other = "None to learn it" if name == "eta" else "(shape, rate) of its Gamma prior"
            if len(parts) > 2 or not all(isinstance(x, int | float | np.number) and 0 < x < np.inf for x in parts):
                raise ParameterError(f"{name} must be a positive number, or {other}, got {value!r}")

    @property
    def _whole(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True  # scikit-learn's checks then pass whole numbers
        return tags
