"""Topics for pyLDAvis, and for a map: what its `prepare` asks for, and coordinates of topics in the plane.

The map is classical scaling: with J^2 the squared Jensen-Shannon distances of topics and C = I - 1/K, the leading
eigenvectors of -C J^2 C / 2, times the roots of their eigenvalues, are the points whose distances come closest. The
Jensen-Shannon distance embeds into a Hilbert space, so no eigenvalue is negative. Cost: K^2 V.
References: Sievert, Shirley (2014), LDAvis; Torgerson (1952); Fuglede, Topsøe (2004).

    import pyLDAvis
    pyLDAvis.save_html(pyLDAvis.prepare(**prepared(model, X, words)), "topics.html")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from weald._typing import FloatArray, TableLike
from weald.topics.base import AbstractTopicModel
from weald.topics.corpus import read_corpus
from weald.topics.matching import distances, words_of


def prepared(model: AbstractTopicModel, X: TableLike, words: Sequence[str] | None = None) -> dict[str, Any]:
    """The arguments of ``pyLDAvis.prepare``.

    Parameters
    ----------
    model : fitted topic model
    X : (n, V) matrix of counts
        Documents; those without words, and words that none of them holds, are left out: they have no frequency.
    words : sequence of V str, optional
        The vocabulary; by default the column names of the fit.

    Returns
    -------
    dict
        ``topic_term_dists`` (K, v), ``doc_topic_dists`` (m, K), ``doc_lengths`` (m,), ``vocab`` (list of v str) and
        ``term_frequency`` (v,).
    """
    check_is_fitted(model, "components_")
    names = np.asarray(model._words(words), object)
    corpus = read_corpus(model, X, reset=False, whole=False)
    seen, told = corpus.frequencies > 0, corpus.lengths > 0
    phi = model.components_[:, seen]
    return {
        "topic_term_dists": phi / phi.sum(axis=1, keepdims=True),
        "doc_topic_dists": model.transform(X)[told],
        "doc_lengths": corpus.lengths[told],
        "vocab": names[seen].tolist(),
        "term_frequency": corpus.frequencies[seen],
    }


def coordinates(model: Any) -> FloatArray:
    """Topics in the plane, near each other where they use the same words.

    Parameters
    ----------
    model : fitted topic model, `Topics`, or (K, V) array

    Returns
    -------
    (K, 2) array
    """
    phi = words_of(model)
    K = len(phi)
    centre = np.eye(K) - 1 / K
    values, vectors = np.linalg.eigh(-centre @ distances(phi, phi, "jensen-shannon") ** 2 @ centre / 2)
    points = (vectors * np.sqrt(np.maximum(values, 0)))[:, ::-1]
    points *= np.where(points[np.argmax(abs(points), axis=0), np.arange(K)] < 0, -1, 1)
    return np.asarray(np.pad(points, ((0, 0), (0, 2)))[:, :2])
