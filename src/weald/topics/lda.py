"""Latent Dirichlet allocation: every document mixes K topics, every topic is a distribution over words.

    theta_d ~ Dirichlet(alpha),   phi_k ~ Dirichlet(eta),   z_di ~ theta_d,   w_di ~ phi[z_di]        (150)-(153)

by collapsed Gibbs sampling (`weald.topics.gibbs`: the best topics), online variational Bayes (`weald.topics.online`:
streams, and the fastest), batch variational Bayes (`weald.topics.variational`: a bound on the evidence that never
falls), or EM (`weald.topics.em`). Alpha, one for each topic, and eta are learned. This file is their scikit-learn face.

    >>> from weald.datasets import make_topics
    >>> X = make_topics(500, 3, 60, 50, 0).X
    >>> LDA(n_topics=3, inference="online-vb", random_state=0).fit(X).transform(X[:2]).shape
    (2, 3)
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from weald import __version__
from weald._progress import Callback
from weald._random import key_from, step_rng
from weald._typing import Array, FloatArray, PathLike, RandomState, TableLike
from weald._validate import check_amount, check_count
from weald.base import fingerprint_of
from weald.exceptions import DataError, ParameterError, StatusWarning
from weald.persist import read
from weald.posterior import Posterior
from weald.topics.base import AbstractTopicModel
from weald.topics.corpus import Corpus, read_corpus
from weald.topics.em import em
from weald.topics.online import OnlineRule, OnlineState, first_state, learn_batch, online
from weald.topics.outcome import Learnt
from weald.topics.variational import variational

INFERENCES = ("gibbs", "online-vb", "vb", "em")
SAMPLERS = ("auto", "dense", "sparse", "alias")
MAX_ITER = {"online-vb": 50, "vb": 500, "em": 500}
EM_ALPHA, EM_ETA = 0.1, 0.01  # tokens that em gives in advance, if not told otherwise
START_DOCUMENTS = 2000  # of a stream: gathered before the first step, for the start


def _takes_batches(lda: LDA) -> bool:
    if lda.inference == "online-vb":
        return True
    raise AttributeError(f"batches need inference='online-vb', not {lda.inference!r}: fit all documents at once")


class LDA(AbstractTopicModel):
    """Latent Dirichlet allocation with a given number of topics.

    Parameters
    ----------
    n_topics : int
        Number of topics K.
    inference : str
        ``"gibbs"`` (collapsed Gibbs sampling), ``"online-vb"`` (online variational Bayes: mini-batches, streams),
        ``"vb"`` (batch variational Bayes) or ``"em"`` (maximum a posteriori).
    alpha : float, (K,) array or None
        Dirichlet parameter of the proportions of topics in a document; None learns one for each topic. For em a
        number of tokens that each topic of a document is given in advance: 0 is maximum likelihood.
    eta : float or None
        Dirichlet parameter of the words of a topic; None learns it. For em a number of tokens that each word of a topic
        is given in advance: with 0, words that the fit has not seen get probability zero.
    sampler : str
        Gibbs: ``"dense"``, ``"sparse"`` or ``"alias"`` sweeps over tokens; ``"auto"`` takes the fastest.
    draws, warmup : int or None
        Gibbs: kept sweeps, and sweeps before them; None chooses.
    chains : int
        Gibbs: independent chains.
    max_iter : int or None
        Most passes of online-vb (50), sweeps of vb and em (500).
    tol : float
        online-vb stops when a pass raises the bound per token by less; vb and em when less than this is still to come.
    batch_size : int
        Documents of a batch in online-vb.
    learning_offset, learning_decay : float
        online-vb: batch t has the weight (learning_offset + t) ** -learning_decay.
    n_jobs : int or None
        Threads; None takes every core. Results do not depend on it.
    random_state : int, Generator, RandomState or None
        Seed.

    Attributes
    ----------
    components_ : (K, V) array
        Probability of each word in each topic, largest topic first.
    topic_sizes_ : (K,) array
        Share of the tokens of each topic.
    alpha_ : (K,) array
        Dirichlet parameter of the proportions.
    eta_ : float
        Dirichlet parameter of the words.
    posterior_ : Posterior
        Draws or estimates of the parameters, trace of every sweep, and how it ended; not after a stream.
    status_ : Status
        May the fit be trusted, and if not, what to do; not after a stream.
    n_iter_ : int
        Passes, sweeps, or batches of a stream.
    n_features_in_, feature_names_in_
        Size of the vocabulary, and its words where a table named them.

    Examples
    --------
    >>> import weald
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> texts = ["tea with milk", "milk and tea", "a car on the road", "the road and the car"] * 20
    >>> counts = CountVectorizer(stop_words="english").fit(texts)
    >>> lda = weald.LDA(n_topics=2, inference="online-vb", random_state=0).fit(counts.transform(texts))
    >>> sorted(sorted(words) for words in lda.topics_(2, counts.get_feature_names_out()))
    [['car', 'road'], ['milk', 'tea']]
    """

    def __init__(
        self,
        n_topics: int = 20,
        *,
        inference: Literal["gibbs", "online-vb", "vb", "em"] = "gibbs",
        alpha: float | Array | None = None,
        eta: float | None = None,
        sampler: Literal["auto", "dense", "sparse", "alias"] = "auto",
        draws: int | None = None,
        warmup: int | None = None,
        chains: int = 1,
        max_iter: int | None = None,
        tol: float = 1e-3,
        batch_size: int = 256,
        learning_offset: float = 10.0,
        learning_decay: float = 0.7,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_topics = n_topics
        self.inference = inference
        self.alpha = alpha
        self.eta = eta
        self.sampler = sampler
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
    _state: Any

    def fit(
        self, X: TableLike, y: Any = None, *, callbacks: Sequence[Callback] = (), resume: PathLike | None = None
    ) -> Self:
        """Learn topics from a corpus.

        Parameters
        ----------
        X : (n, V) matrix of counts
            How often each word occurs in each document, sparse or dense; weights for all but gibbs.
        y : ignored
            Present for scikit-learn.
        callbacks : sequence of callables
            Told of every sweep (`weald.Progress`, `weald.Checkpoint`, your own); returning True stops the fit.
        resume : path, optional
            A file written by `weald.Checkpoint` in a fit with the same data and parameters: go on from there.

        Returns
        -------
        LDA
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
        found = self._infer(corpus, key, how)
        self._report(found, {"seed": int(key), "seconds": time.perf_counter() - started})
        if not self.status_.ok:
            warnings.warn(str(self.status_), StatusWarning, stacklevel=2)
        return self

    @available_if(_takes_batches)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: TableLike, y: Any = None, *, n_documents: float | None = None) -> Self:
        """One step of online variational Bayes from a batch; goes on from a fit, or starts from the first batch.

        Topics start from the first batch: make it large (2,000 documents), or use `fit_batches`.

        Parameters
        ----------
        X : (n, V) matrix of counts
            A batch of documents.
        y : ignored
            Present for scikit-learn.
        n_documents : float, optional
            Size of the whole corpus; by default what has been seen so far.

        Returns
        -------
        LDA
            self
        """
        self._check_parameters()
        state = getattr(self, "_state", None)
        if not isinstance(state, OnlineState) or len(state.n_k) != self.n_topics:
            state = None
        corpus = read_corpus(self, X, reset=state is None, whole=False, empty=state is not None)
        return self._keep_stream(self._followed(state, [corpus], n_documents))

    @available_if(_takes_batches)  # type: ignore[untyped-decorator]
    def fit_batches(self, batches: Iterable[TableLike], *, n_documents: float | None = None) -> Self:
        """Learn from a stream of batches in one pass; memory is bounded by some 2,000 documents and the topics.

        Parameters
        ----------
        batches : iterable of (n, V) matrices of counts
            Such as a generator that reads files one after another; sizes may differ.
        n_documents : float, optional
            Size of the whole corpus; by default what has been seen so far, which does as well in a long stream.

        Returns
        -------
        LDA
            self
        """
        self._check_parameters()

        def corpora() -> Iterator[Corpus]:
            for i, X in enumerate(batches):
                yield read_corpus(self, X, reset=i == 0, whole=False, empty=True)

        state = self._followed(None, corpora(), n_documents)
        if state is None:
            raise DataError("batches hold no words at all: is the iterator spent, or the vocabulary empty?")
        return self._keep_stream(state)

    def _followed(
        self, state: OnlineState | None, corpora: Iterable[Corpus], n_documents: float | None
    ) -> OnlineState | None:
        """The state after batches; where there is none, the first documents are gathered for a start."""
        rule, key = self._rule(), key_from(0 if self.random_state is None else self.random_state)
        n_seen = state.n_documents if state is not None else 0
        for corpus in corpora if state is not None else _gathered(corpora):
            rows = np.flatnonzero(np.diff(corpus.indptr))
            n_seen += len(rows)
            total = max(n_seen, n_documents or 0)
            if state is None and len(rows):
                state = first_state(rule, corpus, total, step_rng(key, chain=0, sweep=0))
            for some in rule.cut(rows):
                assert state is not None  # there is a document
                state, _ = learn_batch(rule, state, corpus, some, total)
        return state

    def _keep_stream(self, state: OnlineState | None) -> Self:
        """Topics of the stream so far; what an earlier fit said of itself is true no more."""
        assert state is not None  # the first batch had words
        self._state, self.eta_, self.n_iter_ = state, state.eta, state.n_steps
        self._learnt(state.topics, state.n_k)
        for name in {"posterior_", "status_"} & set(vars(self)):
            delattr(self, name)
        return self

    def _infer(self, corpus: Corpus, key: np.uint64, how: dict[str, Any]) -> Learnt:
        if self.inference == "gibbs":
            from weald.topics.gibbs import gibbs

            return gibbs(
                corpus, self.n_topics, alpha=self.alpha, eta=self.eta, sampler=self.sampler, draws=self.draws,
                warmup=self.warmup, chains=self.chains, key=key, **how,
            )  # fmt: skip
        most = MAX_ITER[self.inference] if self.max_iter is None else self.max_iter
        if self.inference == "online-vb":
            return online(corpus, self._rule(), most, self.tol, key, **how)
        alpha, eta = self._alpha(), None if self.eta is None else float(self.eta)
        if self.inference == "vb":
            return variational(corpus, self.n_topics, alpha, eta, most, self.tol, key, self._engine(), **how)
        alpha = np.full(self.n_topics, EM_ALPHA) if alpha is None else alpha
        eta = EM_ETA if eta is None else eta
        return em(corpus, self.n_topics, alpha, eta, most, self.tol, key, self._engine(), **how)

    def _rule(self) -> OnlineRule:
        return OnlineRule(
            self.n_topics, self._alpha(), None if self.eta is None else float(self.eta), float(self.learning_offset),
            float(self.learning_decay), int(self.batch_size), self._engine(),
        )  # fmt: skip

    def _alpha(self) -> FloatArray | None:
        """(K,), or None where it is learned."""
        return None if self.alpha is None else np.broadcast_to(np.float64(self.alpha), self.n_topics).copy()

    def _report(self, found: Learnt, attrs: dict[str, Any]) -> None:
        """Topics, posterior and status."""
        order = self._learnt(found.topics, found.sizes)
        draws = {name: x[..., order] if name == "alpha" else x for name, x in found.draws.items()}
        record = {**attrs, "weald": __version__, "inference": self.inference, "thin": found.thin, **found.attrs}
        self.status_, self._state = found.status, found.state
        self.posterior_ = Posterior(draws, found.stats, found.status, record, found.warmup)
        self.eta_ = float(draws["eta"].mean())
        self.n_iter_ = self.posterior_.n_sweeps

    def _check_parameters(self) -> None:
        if self.inference not in INFERENCES:
            raise ParameterError(f"inference must be one of {INFERENCES}, got {self.inference!r}")
        if self.sampler not in SAMPLERS:
            raise ParameterError(f"sampler must be one of {SAMPLERS}, got {self.sampler!r}")
        for name in ("n_topics", "batch_size", "chains"):
            check_count(name, getattr(self, name))
        for name, least in (("draws", 1), ("warmup", 0), ("max_iter", 1)):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), f"None or an int of at least {least}", least)
        for name in ("tol", "learning_offset", "learning_decay"):
            check_amount(name, getattr(self, name))
        if not 0.5 < self.learning_decay <= 1 or self.learning_offset < 1:
            raise ParameterError(
                "learning_decay must be in (0.5, 1] and learning_offset at least 1, for steps that settle"
            )
        self._check_priors()

    def _check_priors(self) -> None:
        least = 0.0 if self.inference == "em" else np.nextafter(0, 1)
        wanted = "a number >= 0" if self.inference == "em" else "a positive number"
        for name, shapes in (("alpha", ((), (self.n_topics,))), ("eta", ((),))):
            value = getattr(self, name)
            if value is None:
                continue
            try:
                x = np.asarray(value, np.float64)
            except (TypeError, ValueError):
                x = np.array([np.nan])
            if x.shape not in shapes or not np.isfinite(x).all() or (x < least).any():
                several = f", one for each of the {self.n_topics} topics," if name == "alpha" else ""
                raise ParameterError(f"{name} must be {wanted}{several} or None to learn it, got {value!r}")

    @property
    def _whole(self) -> bool:
        return self.inference == "gibbs"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True  # scikit-learn's checks then pass whole numbers, as perplexity needs
        return tags


def _gathered(corpora: Iterable[Corpus]) -> Iterator[Corpus]:
    """The same documents, the first batches as one of `START_DOCUMENTS` or more, if there are so many."""
    first: list[Corpus] = []
    n = 0
    for corpus in corpora:
        if n >= START_DOCUMENTS:
            yield corpus
            continue
        first.append(corpus)
        n += corpus.n_documents
        if n >= START_DOCUMENTS:
            yield _joined(first)
            first = []
    if first:
        yield _joined(first)


def _joined(parts: Sequence[Corpus]) -> Corpus:
    """Documents of several corpora end to end."""
    ends = np.cumsum([0, *(len(part.words) for part in parts)])
    indptr = np.concatenate([part.indptr[:-1] + end for part, end in zip(parts, ends[:-1], strict=True)])
    words = np.concatenate([part.words for part in parts])
    return Corpus(np.append(indptr, ends[-1]), words, np.concatenate([p.counts for p in parts]), parts[0].n_words)
