"""A corpus read once: the counts of its words, and of each document its name, its date and how it begins.

counted = count("corpus.jsonl", Fields("body", id="key"), Pruning())
counted.X.shape, counted.vocabulary.words[:3]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weald._typing import Array, PathLike
from weald.app.texts import Fields, as_dates, names_documents, read_texts
from weald.app.wording import Pruning, Vocabulary, learn

EXCERPT = 320  # letters kept of each document


@dataclass(frozen=True)
class Counted:
    """A corpus after counting.

    Parameters
    ----------
    vocabulary : Vocabulary
        The words.
    X : (n, V) CSR matrix
        Counts.
    id : str or None
        What the ids are called.
    ids, dates : array of shape (n,) or None
        Names of documents; datetime64.
    excerpts : list of n str
        How each document begins.
    notes : tuple of str
        What to know about the data.
    """

    vocabulary: Vocabulary
    X: Any
    id: str | None
    ids: Array | None
    dates: Array | None
    excerpts: list[str]
    notes: tuple[str, ...]

    @property
    def n_documents(self) -> int:
        """How many documents there are, empty ones included."""
        return int(self.X.shape[0])


def count(data: PathLike, fields: Fields, pruning: Pruning) -> Counted:
    """Read documents and learn their words.

    Parameters
    ----------
    data : path or str
        What `weald.app.texts.read_texts` reads.
    fields : Fields
        What to read.
    pruning : Pruning
        Which words to leave out.

    Returns
    -------
    Counted
    """
    passing = _Passing(data, fields)
    vocabulary, X, notes = learn(passing.texts(), pruning)
    return Counted(vocabulary, X, passing.id, passing.named(), passing.dated(), passing.excerpts, tuple(notes))


def recount(data: PathLike, fields: Fields, vocabulary: Vocabulary) -> Counted:
    """Read documents and count the words of a vocabulary.

    Parameters
    ----------
    data : path or str
        What `weald.app.texts.read_texts` reads.
    fields : Fields
        What to read.
    vocabulary : Vocabulary
        The words; others are left out.

    Returns
    -------
    Counted
    """
    passing = _Passing(data, fields)
    X = vocabulary.count(passing.texts())
    return Counted(vocabulary, X, passing.id, passing.named(), passing.dated(), passing.excerpts, ())


class _Passing:
    """Remembers of each document that is read what is not its text."""

    def __init__(self, data: PathLike, fields: Fields) -> None:
        self.data, self.fields, self.id = data, fields, names_documents(data, fields)
        self.excerpts: list[str] = []
        self._ids: list[Any] = []
        self._dates: list[Any] = []

    def texts(self) -> Iterator[str | None]:
        for document in read_texts(self.data, self.fields):
            self._ids.append(document.id)
            self._dates.append(document.date)
            self.excerpts.append(beginning(document.text or ""))
            yield document.text

    def named(self) -> Array | None:
        return None if all(id is None for id in self._ids) else named(self._ids)

    def dated(self) -> Array | None:
        return None if self.fields.date is None else as_dates(self._dates, self.fields.date)


def beginning(text: str) -> str:
    """The first letters of a text, on one line."""
    words = " ".join(text[: 4 * EXCERPT].split())
    return words if len(words) <= EXCERPT else words[:EXCERPT].rsplit(" ", 1)[0] + " ..."


def named(ids: Sequence[Any]) -> Array:
    """Ids as a column: whole numbers where all are, else text."""
    if all(isinstance(id, int | np.integer) and not isinstance(id, bool) for id in ids):
        return np.array(ids, np.int64)
    return np.array([None if id is None or id != id else str(id) for id in ids], object)
