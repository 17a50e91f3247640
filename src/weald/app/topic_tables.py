"""What a run of topics writes: topics, documents, their proportions, and words.

tables_of(run)["documents"]["topic"]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weald._typing import Array, FloatArray, IntArray
from weald.app.corpus import Counted
from weald.topics.coherence import top_words

if TYPE_CHECKING:
    from weald.app.topics import TopicRun

TILE = 1 << 16  # entries of the matrix of counts in work at a time
TABLED = 50  # words of each topic
OURS = frozenset({
    "row", "date", "topic", "share", "second_topic", "second_share", "n_words", "log_probability", "held_out",
})  # fmt: skip


def tables_of(run: TopicRun) -> dict[str, dict[str, Array]]:
    """The tables of a run by name."""
    documents = document_table(run.counted, run.proportions, run.log_probability)
    return {
        "topics": topic_table(run),
        "documents": documents | {"held_out": run.held_out},
        "proportions": rows_of(run.counted) | columns_of(run.proportions),
        "words": word_table(run.model, run.counted.vocabulary.words, max(TABLED, run.settings.words)),
    }


def document_table(counted: Counted, proportions: FloatArray, log_probability: FloatArray) -> dict[str, Array]:
    """One row for each document."""
    dates = {} if counted.dates is None else {"date": counted.dates}
    found = {"n_words": n_words(counted.X), "log_probability": log_probability}
    return rows_of(counted) | dates | shares(proportions) | found


def rows_of(counted: Counted) -> dict[str, Array]:
    """What names the rows; ids whose name would collide with one of ours are called input_..."""
    rows = {"row": np.arange(counted.n_documents)}
    if counted.id is None or counted.ids is None:
        return rows
    taken = counted.id in OURS or (counted.id[:1] == "t" and counted.id[1:].isdigit())
    return rows | {f"input_{counted.id}" if taken else counted.id: counted.ids}


def columns_of(proportions: FloatArray) -> dict[str, Array]:
    """Proportions as columns t0, t1, ..."""
    return {f"t{k}": proportions[:, k] for k in range(proportions.shape[1])}


def n_words(X: Any) -> IntArray:
    """(n,): words of the vocabulary in each document, repeats included."""
    return np.asarray(X.sum(axis=1), np.int64).ravel()


def log_probability(X: Any, proportions: FloatArray, phi: FloatArray) -> FloatArray:
    """(n,): mean log probability of the words of each document, given its proportions; NaN where there are none."""
    total, by_word = np.zeros(X.shape[0]), np.ascontiguousarray(phi.T)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    for a in range(0, len(rows), TILE):
        tile = slice(a, a + TILE)
        p = np.einsum("jk,jk->j", proportions[rows[tile]], by_word[X.indices[tile]])
        with np.errstate(divide="ignore"):
            total += np.bincount(rows[tile], X.data[tile] * np.log(p), minlength=len(total))
    n = np.asarray(X.sum(axis=1), np.float64).ravel()
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)


def shares(proportions: FloatArray) -> dict[str, Array]:
    """The two largest topics of each document; the second is -1 where there is only one."""
    rows, first = np.arange(len(proportions)), proportions.argmax(axis=1)
    rest = proportions.copy()
    rest[rows, first] = -1.0
    second = rest.argmax(axis=1) if proportions.shape[1] > 1 else np.full(len(proportions), -1)
    return {
        "topic": first,
        "share": proportions[rows, first],
        "second_topic": second,
        "second_share": np.maximum(rest[rows, second], 0.0),
    }


def topic_table(run: TopicRun) -> dict[str, Array]:
    """One row for each topic."""
    vocabulary, n = run.counted.vocabulary.words, run.settings.words
    lines = {
        name: np.array([" ".join(words) for words in run.model.topics_(n, vocabulary, by=by)], object)
        for name, by in (("words", "probability"), ("distinctive_words", "lift"))
    }
    return {
        "topic": np.arange(run.n_topics),
        "share": run.model.topic_sizes_,
        "n_documents": np.bincount(run.leading, minlength=run.n_topics),
        "coherence": run.fitness.coherence,
        **lines,
    }


def word_table(model: Any, vocabulary: Sequence[str], n: int) -> dict[str, Array]:
    """The most probable words of each topic, with what they say for it."""
    phi, sizes = model.components_, model.topic_sizes_
    top, names = top_words(phi, sizes, n), np.array(vocabulary, object)
    topic, rank = (cells.ravel() for cells in np.indices(top.shape))
    probability = phi[topic, top.ravel()]
    return {
        "topic": topic,
        "rank": rank + 1,
        "word": names[top.ravel()],
        "probability": probability,
        "lift": probability / (sizes @ phi)[top.ravel()],
    }
