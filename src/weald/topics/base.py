"""The scikit-learn face shared by topic models: proportions, words, perplexity, coherence.

A fitted model holds `Topics`: phi (K, V), the probability of each word in each topic, and alpha (K,), the Dirichlet
parameter of the proportions of topics in a document. All that is asked of it later follows from these two. Topics are
numbered by size, largest first, whatever the order in which inference found them.

    >>> import weald
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> texts = ["tea with milk", "milk and tea", "a car on the road", "the road and the car"] * 20
    >>> counts = CountVectorizer(stop_words="english").fit(texts)
    >>> lda = weald.LDA(n_topics=2, inference="online-vb", random_state=0).fit(counts.transform(texts))
    >>> words = counts.get_feature_names_out()
    >>> sorted(sorted(topic) for topic in lda.topics_(2, words))
    [['car', 'road'], ['milk', 'tea']]
    >>> lda.coherence_([text.split() for text in texts], words=words, n_words=2).round(2)
    array([1., 1.])
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from weald._typing import FloatArray, IntArray, RandomState, TableLike
from weald._validate import check_count
from weald.base import engine_for
from weald.engine import Threads
from weald.exceptions import ParameterError, Status
from weald.posterior import Posterior
from weald.topics import coherence, heldout
from weald.topics.corpus import Corpus, read_corpus
from weald.topics.fold_in import Topics

Method = Literal["completion", "left-to-right"]


class AbstractTopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Reads counts of words in documents, and answers from `Topics`."""

    random_state: RandomState
    n_jobs: int | None
    _persisted: tuple[str, ...] = ("_topics",)
    _topics: Topics
    posterior_: Posterior
    status_: Status
    topic_sizes_: FloatArray

    @property
    @abstractmethod
    def _whole(self) -> bool:
        """Whether counts must be whole numbers."""

    @property
    def components_(self) -> FloatArray:
        """(K, V): probability of each word in each topic; rows sum to one."""
        check_is_fitted(self, "_topics")
        return self._topics.phi

    @property
    def alpha_(self) -> FloatArray:
        """(K,): Dirichlet parameter of the proportions of topics in a document."""
        check_is_fitted(self, "_topics")
        return self._topics.alpha

    def transform(self, X: TableLike) -> FloatArray:
        """Expected proportions of topics in each document.

        Parameters
        ----------
        X : (n, V) matrix of counts
            Documents, sparse or dense; words that the fit has not seen are as improbable as their prior says.

        Returns
        -------
        (n, K) array
            Rows sum to one; a document without words has the prior mean.
        """
        check_is_fitted(self, "_topics")
        return self._topics.proportions(self._read(X, reset=False), self._engine())

    def score_samples(self, X: TableLike, *, method: Method = "left-to-right", n_particles: int = 20) -> FloatArray:
        """Log evidence log p(document) of each document, topics known and proportions integrated out.

        Parameters
        ----------
        X : (n, V) matrix of counts
            Documents as sequences of words: no multinomial coefficient.
        method : str
            ``"left-to-right"`` (default): an estimate that is unbiased for the probability of the document, so a
            lower bound on its log on average, closer with more particles; ``"completion"``: log probability of one
            half of the tokens given the other.
        n_particles : int
            Samples of the left-to-right estimate.

        Returns
        -------
        (n,) array
            0 for a document without words. The same X has the same answer, whatever `random_state` and `n_jobs`.
        """
        check_is_fitted(self, "_topics")
        return self._evaluated(X, method, n_particles)[0]

    def perplexity(
        self, X: TableLike, *, method: Method = "completion", per: Literal["corpus", "document"] = "corpus",
        n_particles: int = 20,
    ) -> float:  # fmt: skip
        """How many words a document model is torn between: smaller is better, the size of the vocabulary is the worst.

        Parameters
        ----------
        X : (n, V) matrix of counts
            Documents that the fit has not seen.
        method : str
            ``"completion"`` (default): half of the tokens of each document, drawn at random, tell its topics, the
            other half is predicted; ``"left-to-right"``: evidence of whole documents. The halves depend on nothing but
            the place of the document in X, so models are compared on the same tokens.
        per : str
            ``"corpus"``: exp(-sum of log p / number of tokens); ``"document"``: the mean of each document's mean, as
            printed in (167).
        n_particles : int
            Samples of the left-to-right estimate.

        Returns
        -------
        float
            Documents without words take no part; at least one token must be left to predict.
        """
        check_is_fitted(self, "_topics")
        return heldout.perplexity(*self._evaluated(X, method, n_particles), per=per)

    def score(self, X: TableLike, y: Any = None) -> float:
        """Mean log probability of a held-out token, by document completion: minus the log of `perplexity`.

        Parameters
        ----------
        X : (n, V) matrix of counts
        y : ignored
            Present for scikit-learn.

        Returns
        -------
        float
            Larger is better.
        """
        return -float(np.log(self.perplexity(X)))

    def topics_(
        self,
        n_words: int = 10,
        words: Sequence[str] | None = None,
        *,
        by: Literal["probability", "lift"] = "probability",
    ) -> list[tuple[str, ...]]:
        """The words of each topic.

        Parameters
        ----------
        n_words : int
            How many.
        words : sequence of V str, optional
            The vocabulary, such as ``vectorizer.get_feature_names_out()``; by default the column names of the fit.
        by : str
            ``"probability"``, or ``"lift"``: words that set the topic apart from the corpus.

        Returns
        -------
        list of K tuples of str
            Best word first.
        """
        check_is_fitted(self, "_topics")
        check_count("n_words", n_words)
        names = self._words(words)
        top = coherence.top_words(self._topics.phi, self.topic_sizes_, n_words, by=by)
        return [tuple(names[w] for w in row) for row in top]

    def coherence_(
        self,
        texts: TableLike | Iterable[Sequence[str]],
        *,
        measure: coherence.Measure = "npmi",
        n_words: int = 10,
        words: Sequence[str] | None = None,
    ) -> FloatArray:
        """How well the top words of each topic go together in texts.

        Parameters
        ----------
        texts : (n, V) matrix of counts, or iterable of n sequences of words
            A matrix has whole documents as windows; over sequences of words, in their order, a window slides.
        measure : str
            ``"npmi"`` (normalised pointwise mutual information, in [-1, 1]) or ``"c_v"`` (in [0, 1]).
        n_words : int
            Top words of each topic.
        words : sequence of V str, optional
            The vocabulary, for sequences of words; by default the column names of the fit.

        Returns
        -------
        (K,) array
        """
        check_is_fitted(self, "_topics")
        check_count("n_words", n_words, "an int of at least 2", least=2)
        top = coherence.top_words(self._topics.phi, self.topic_sizes_, n_words)
        if len(getattr(texts, "shape", ())) == 2 or isinstance(texts, str | os.PathLike):
            windows = coherence.documents(self._read(texts, reset=False), top)
        else:
            windows = coherence.sliding(texts, self._words(words), top, measure)
        return coherence.measured(windows, top, measure)

    def _learnt(self, topics: Topics, sizes: FloatArray) -> IntArray:
        """Keep topics, largest first, and their shares of the tokens; returns their order."""
        order = np.argsort(-sizes, kind="stable")
        self._topics = Topics(topics.phi[order], topics.alpha[order])
        self.topic_sizes_ = sizes[order] / sizes.sum()
        return order

    def _evaluated(self, X: TableLike, method: str, n_particles: int) -> tuple[FloatArray, FloatArray]:
        """Log probability (n,) of what is predicted of each document, and its number of tokens (n,)."""
        corpus = read_corpus(self, X, reset=False, whole=True, empty=True)
        rng = np.random.default_rng(0)  # the same halves for every model: comparisons are paired
        if method == "completion":
            return heldout.completion(self._topics, corpus, rng, self._engine())
        if method == "left-to-right":
            check_count("n_particles", n_particles)
            return heldout.left_to_right(self._topics, corpus, n_particles, rng, self._engine())
        raise ParameterError(f"method must be 'completion' or 'left-to-right', got {method!r}")

    def _words(self, words: Sequence[str] | None) -> Sequence[str]:
        """The vocabulary: given, or the names of the columns of the fit, or their numbers."""
        V = self._topics.phi.shape[1]
        if words is None:
            words = [str(name) for name in getattr(self, "feature_names_in_", range(V))]
        if isinstance(words, str | Mapping | Set):
            raise ParameterError(f"words must be a sequence in the order of the columns, got a {type(words).__name__}")
        if len(words) != V:
            raise ParameterError(f"words must name the {V} columns of the fit, got {len(words)} names")
        return words

    @property
    def _n_features_out(self) -> int:
        return self._topics.n_topics

    def _read(self, X: TableLike, *, reset: bool) -> Corpus:
        return read_corpus(self, X, reset=reset, whole=self._whole and reset, empty=not reset)

    def _engine(self) -> Threads:
        return engine_for(self.n_jobs)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags
