"""Supervised LDA: topics learned together with what they explain, a number or a class of each document.

    theta_d ~ Dirichlet(alpha),  z_di ~ theta_d,  x_di ~ phi_{z_di},  phi_k ~ Dirichlet(eta)
    y_d ~ N(w . zbar_d, sigma^2)  or  p(y_d = c) = softmax(w_c . zbar_d),   zbar_d the shares of topics   (280)-(281)

Topics of plain LDA say what documents are about; these say what of it matters for y. The posterior of topics, of
coefficients and of noise is drawn by collapsed Gibbs sampling (`weald.topics.slda_gibbs`); predictions average over its
draws and over draws of the topics of each new document (`weald.topics.slda_draws`), and so say how sure they are.
Documents without a label help to learn topics. This file is the scikit-learn face.

References: journal (003) 5.3; McAuliffe & Blei (2007), Supervised topic models.

    >>> from weald.datasets import make_topics
    >>> corpus = make_topics(200, 4, 100, 50, 0)
    >>> y = corpus.truth["proportions"] @ [-2.0, -1.0, 1.0, 2.0]
    >>> slda = SupervisedLDA(4, draws=20, warmup=30, random_state=0).fit(corpus.X, y)           # doctest: +SKIP
    >>> mean, sd = slda.predict(corpus.X, return_std=True)                                     # doctest: +SKIP
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from weald import __version__
from weald._progress import Callback
from weald._random import key_from
from weald._typing import Array, FloatArray, PathLike, RandomState, TableLike
from weald._validate import check_amount, check_count
from weald.base import fingerprint_of
from weald.exceptions import ParameterError, Status, StatusWarning, Verdict
from weald.inference.run import Chain, run
from weald.mixtures.outcome import longest
from weald.mixtures.verdict import of_chains
from weald.persist import read
from weald.posterior import Posterior
from weald.topics.base import AbstractTopicModel
from weald.topics.corpus import read_corpus
from weald.topics.fold_in import Topics
from weald.topics.matching import match_topics
from weald.topics.slda_draws import PREDICT_DRAWS, ResponseDraws
from weald.topics.slda_gibbs import SupervisedKernel, SupervisedState, documents_of
from weald.topics.slda_response import KINDS, Kind, Response, read_response
from weald.topics.slda_start import first_topics

JUDGED = ("log_response", "log_words")
CURE = "chains may sit in different modes: predictions average over all of them, components_ and coef_ are of the best"
ALPHA, ETA = 0.1, 0.01  # to start from, where they are learnt


def _classifies(slda: SupervisedLDA) -> bool:
    if slda._is_classifier():
        return True
    raise AttributeError("the response is a number: use predict(X, return_std=True) for its uncertainty")


class SupervisedLDA(AbstractTopicModel):
    """Topics that explain a response: a regressor where y are numbers, a classifier where they are classes.

    Parameters
    ----------
    n_topics : int
        Number of topics K.
    response : str
        ``"gaussian"`` (numbers), ``"binary"`` (two classes), ``"softmax"`` (classes), or ``"auto"``: text, truth values
        and numbers of which there are only two are classes, other numbers are numbers. To scikit-learn's model
        selection ``"auto"`` is a regressor until it is fitted: name the response of classes.
    alpha : float or None
        Dirichlet parameter of the proportions of topics in a document; None learns one for each topic.
    eta : float or None
        Dirichlet parameter of the words of a topic; None learns it.
    draws, warmup : int
        Sweeps kept by each chain, and sweeps before them.
    chains : int
        Number of chains, from different starts. Their predictions are averaged, which is worth more than one chain as
        long as all of them.
    n_jobs : int or None
        Threads for predictions; None takes every core. Results do not depend on it.
    random_state : int, Generator, RandomState or None
        Seed.

    Attributes
    ----------
    components_ : (K, V) array
        Probability of each word in each topic, of the chain with the largest posterior density: by coefficient,
        largest first; for softmax by size.
    coef_ : (K,) or (C, K) array
        What a document wholly of one topic is expected to have: a number in the units of y; for two classes the log
        odds of ``classes_[1]``; for softmax the log probability of each class, less the mean over classes. Shares of
        topics sum to one, so there is no intercept.
    classes_ : (C,) array
        Labels of classes, of a classifier.
    sigma_ : float
        Standard deviation of the noise, of a regressor.
    alpha_ : (K,) array
        Dirichlet parameter of the proportions of topics.
    eta_ : float
        Dirichlet parameter of the words of a topic.
    topic_sizes_ : (K,) array
        Share of the tokens of each topic.
    posterior_ : Posterior
        Draws ``"w"`` (in the units of `coef_`), ``"sigma"``, ``"alpha"`` and ``"eta"``, topics of all chains matched to
        those of `components_`; trace of every sweep.
    status_ : Status
        May the draws be trusted, and if not, what to do.
    n_features_in_, feature_names_in_
        Size of the vocabulary, and its words where a table named them.

    Examples
    --------
    >>> import weald
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> texts = ["good fun film", "fun good good", "dull bad film", "bad dull bad", "film of fun", "a dull film"] * 10
    >>> counts = CountVectorizer(stop_words="english").fit(texts)
    >>> slda = weald.SupervisedLDA(2, draws=50, warmup=50, random_state=0)
    >>> slda = slda.fit(counts.transform(texts), [5, 5, 1, 1, 4, 2] * 10)                      # doctest: +SKIP
    >>> slda.predict(counts.transform(["good fun", "bad film"])).round()                      # doctest: +SKIP
    array([5., 1.])
    """

    def __init__(
        self,
        n_topics: int = 8,
        *,
        response: Kind = "auto",
        alpha: float | None = None,
        eta: float | None = None,
        draws: int = 100,
        warmup: int = 200,
        chains: int = 4,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_topics = n_topics
        self.response = response
        self.alpha = alpha
        self.eta = eta
        self.draws = draws
        self.warmup = warmup
        self.chains = chains
        self.n_jobs = n_jobs
        self.random_state = random_state

    _persisted = ("_topics", "_draws")
    _draws: ResponseDraws
    _whole = True

    def fit(self, X: TableLike, y: Any, *, callbacks: Sequence[Callback] = (), resume: PathLike | None = None) -> Self:
        """Draw topics and coefficients.

        Parameters
        ----------
        X : (n, V) matrix of counts
            How often each word occurs in each document, sparse or dense. Documents without words take no part.
        y : (n,) array
            Numbers, or classes. Documents with NaN (numbers), -1 (classes that are numbers, if there are at least two
            others) or None have no label, and help to learn topics.
        callbacks : sequence of callables
            Told of every sweep (`weald.Progress`, `weald.Checkpoint`, your own); returning True stops the fit.
        resume : path, optional
            A file written by `weald.Checkpoint` in a fit with the same data and parameters: go on from there.

        Returns
        -------
        SupervisedLDA
            self
        """
        self._check_parameters()
        started = time.perf_counter()
        corpus = self._read(X, reset=True)
        response = read_response(y, corpus.n_documents, self.response)
        key = key_from(self.random_state)
        kernel = SupervisedKernel(
            documents_of(corpus), response, self.n_topics, ALPHA if self.alpha is None else self.alpha,
            ETA if self.eta is None else self.eta, self.alpha is None, self.eta is None,
            partial(first_topics, corpus, response, self.n_topics),
        )  # fmt: skip
        parts = {"documents": kernel.documents, "response": response}
        chains = run(
            kernel, key=key, sweeps=self.warmup + self.draws, chains=self.chains, warmup=self.warmup,
            collect=lambda state: self._collect(kernel, state), callbacks=callbacks,
            resume=None if resume is None else read(resume, "Snapshot"),
            fingerprint=lambda: fingerprint_of(self, **parts),
        )  # fmt: skip
        self._keep(kernel, chains, {"seed": int(key), "seconds": time.perf_counter() - started})
        if not self.status_.ok:
            warnings.warn(str(self.status_), StatusWarning, stacklevel=2)
        return self

    def predict(self, X: TableLike, return_std: bool = False) -> Any:
        """Expected number, or most probable class, of each document.

        Parameters
        ----------
        X : (n, V) matrix of counts
            Documents, of whole counts.
        return_std : bool
            For numbers: return the standard deviation too. It holds the noise, what is unknown of the topics of the
            document, and what is unknown of the model.

        Returns
        -------
        (n,) array, or two of them
        """
        check_is_fitted(self, "_draws")
        if self._is_classifier():
            if return_std:
                raise ParameterError("return_std is for numbers; of classes predict_proba tells how sure they are")
            return self.classes_[self.predict_proba(X).argmax(axis=1)]
        mean, sd = self._draws.moments(self._counts(X), self._engine())
        return (mean, sd) if return_std else mean

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: TableLike) -> FloatArray:
        """Probability of each class, in the order of `classes_`.

        Parameters
        ----------
        X : (n, V) matrix of counts
            Documents, of whole counts.

        Returns
        -------
        (n, C) array
            Rows sum to one.
        """
        check_is_fitted(self, "_draws")
        return self._draws.proba(self._counts(X), self._engine())

    def entropy(self, X: TableLike) -> FloatArray:
        """How unsure the response of each document is, H[y | x, data] (282)-(284), to choose what to label next.

        Parameters
        ----------
        X : (n, V) matrix of counts
            Documents, of whole counts.

        Returns
        -------
        (n,) array
            In nats. For classes exact, given the draws; for numbers, in their units, averaged over draws of y.
        """
        check_is_fitted(self, "_draws")
        return self._draws.entropy(self._counts(X), self._engine())

    def score(self, X: TableLike, y: Any, sample_weight: Array | None = None) -> float:  # type: ignore[override]
        """R^2 of the predicted numbers, or share of classes that are right.

        Parameters
        ----------
        X : (n, V) matrix of counts
            Documents, of whole counts.
        y : (n,) array
            Their responses.
        sample_weight : (n,) array, optional
            Weight of each document.

        Returns
        -------
        float
            Larger is better. How well the topics predict words is told by `perplexity`.
        """
        measure = accuracy_score if self._is_classifier() else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    def _counts(self, X: TableLike) -> Any:
        return read_corpus(self, X, reset=False, whole=True, empty=True)

    def _is_classifier(self) -> bool:
        if self.response == "auto":
            return hasattr(self, "classes_")
        return self.response in KINDS and self.response != "gaussian"

    def _check_parameters(self) -> None:
        for name, least in (("n_topics", 1), ("draws", 1), ("warmup", 0), ("chains", 1)):
            check_count(name, getattr(self, name), f"an int of at least {least}", least=least)
        for name in ("alpha", "eta"):
            value = getattr(self, name)
            if value is not None:
                check_amount(name, value)
                if value == 0:
                    raise ParameterError(f"{name} must be positive, or None to be learnt, got 0")
        self._engine()

    def _collect(self, kernel: SupervisedKernel, state: SupervisedState) -> dict[str, Array]:
        """What is kept of a draw; words of topics now and then, for they are large."""
        every = -(-self.draws // -(-PREDICT_DRAWS // self.chains))
        kept = {"w": state.w, "alpha": state.alpha, "sigma": np.sqrt(state.sigma2), "eta": np.array(state.eta)}
        if (state.sweep - self.warmup) % every == 0:
            kept |= {"phi": kernel.phi(state), "phi_of": np.array(state.sweep - self.warmup - 1)}
        return kept

    def _keep(self, kernel: SupervisedKernel, chains: Sequence[Chain], attrs: dict[str, Any]) -> None:
        """Draws, topics and verdict of what the chains left."""
        status = None
        if not any("phi" in chain.draws for chain in chains):
            status = Status(
                Verdict.FAILED, "stopped before the first draw: this is where the chains stood", ("fit on",)
            )
            chains = [replace(chain, draws=_last(kernel, chain.state)) for chain in chains]
        chains = [chain for chain in longest(chains, "w")[0] if "phi" in chain.draws]
        response = replace(kernel.response, y=np.empty(0))
        at = [chain.draws["phi_of"] for chain in chains]

        def pick(name: str) -> Array:
            return np.concatenate([chain.draws[name][i] for chain, i in zip(chains, at, strict=True)])

        self._draws = ResponseDraws(
            np.concatenate([chain.draws["phi"] for chain in chains]), pick("alpha"), pick("w"), pick("sigma"),
            np.concatenate([np.arange(len(i)) == 0 for i in at]), response, attrs["seed"],
        )  # fmt: skip
        draws = self._describe(kernel, chains, response)
        n = min(len(next(iter(chain.stats.values()), ())) for chain in chains)
        stats = {name: np.stack([chain.stats[name][:n] for chain in chains]) for name in chains[0].stats}
        warmup = min(self.warmup, n)
        self.status_ = status or _verdict(kernel.response, stats, warmup)
        record = {**attrs, "weald": __version__, "inference": "collapsed gibbs", "response": response.kind}
        self.posterior_ = Posterior(draws, stats, self.status_, record, warmup)
        self.n_iter_ = n

    def _describe(self, kernel: SupervisedKernel, chains: Sequence[Chain], response: Response) -> dict[str, Array]:
        """Topics of the best chain, in order; draws of all chains in that order."""
        means = [chain.draws["phi"].mean(axis=0).T.astype(np.float64) for chain in chains]
        best = int(np.argmax([_density(chain) for chain in chains]))
        sizes = np.bincount(chains[best].state.z, minlength=self.n_topics).astype(np.float64)
        coef = response.in_units(chains[best].draws["w"]).mean(axis=0)
        order = np.argsort(-sizes if coef.ndim > 1 else -coef, kind="stable")
        orders = [match_topics(means[best][order], phi).order for phi in means]
        n = min(len(chain.draws["w"]) for chain in chains)
        draws = {
            name: np.stack([chain.draws[name][:n][..., o] for chain, o in zip(chains, orders, strict=True)])
            for name in ("w", "alpha")
        }
        draws |= {name: np.stack([chain.draws[name][:n] for chain in chains]) for name in ("eta", "sigma")}
        draws["w"] = response.in_units(draws["w"])
        self._topics = Topics(means[best][order], draws["alpha"][best].mean(axis=0))
        self.topic_sizes_ = sizes[order] / sizes.sum()
        self.coef_, self.eta_ = draws["w"][best].mean(axis=0), float(draws["eta"][best].mean())
        for name in {"classes_", "sigma_"} & set(vars(self)):
            delattr(self, name)
        if response.classes is None:
            draws["sigma"] = draws["sigma"] * response.scale
            self.sigma_ = float(draws["sigma"].mean())
        else:
            self.classes_ = response.classes
            del draws["sigma"]
        return draws

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if self._is_classifier():
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
            tags.classifier_tags.multi_class = self.response != "binary"
            tags.classifier_tags.poor_score = True  # of tables of numbers that are no counts of words
        else:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags(poor_score=True)
        return tags


def _last(kernel: SupervisedKernel, state: SupervisedState) -> dict[str, Array]:
    """The last state as if it had been drawn."""
    one = {"w": state.w, "alpha": state.alpha, "sigma": np.sqrt(state.sigma2), "eta": np.array(state.eta)}
    one |= {"phi": kernel.phi(state), "phi_of": np.array(0)}
    return {name: np.asarray(x)[None] for name, x in one.items()}


def _density(chain: Chain) -> float:
    """Mean log density of the kept sweeps."""
    n = len(chain.draws["w"])
    return float(sum(np.mean(chain.stats[name][-n:]) for name in JUDGED if name in chain.stats))


def _verdict(response: Response, stats: dict[str, FloatArray], warmup: int) -> Status:
    told = response.y[~np.isnan(response.y)]
    if response.classes is None and np.ptp(told) == 0:
        return Status(Verdict.CAUTION, "y is constant: there is nothing to explain", ("look at y, or use LDA",))
    return of_chains(stats, warmup, JUDGED, CURE)
