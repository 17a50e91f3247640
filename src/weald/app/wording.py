"""From text to counts of words: which words there are, and how text is cut into them.

    word       at least two letters of any script in a row, with their accents; lower case, composed (NFC)
    stop words left out: the English ones with the scraps of contractions, those of a file, or none
    too rare   in fewer than max(2, sqrt(D) / 20) of D documents (of fewer than 20 documents, none is)
    too common in more than half of the documents (of fewer than 20 documents, none is)

Counting is scikit-learn's, over texts that come one at a time. A `Vocabulary` is stored with a run, so that new
documents are counted alike; words that it does not hold are left out.

    >>> words, X, _ = learn(["Tea and milk", "milk, milk!", None], Pruning())
    >>> words.words, X.toarray().tolist()
    (('milk', 'tea'), [[1, 1], [2, 0], [0, 0]])
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weald._typing import IntArray
from weald.exceptions import DataError, ParameterError

MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0970-\u0dff\u0e31-\u0e4e"
TOKEN = rf"[^\W\d_](?:[^\W\d_]+|[{MARKS}]+)+"
SCRAPS = "ain aren couldn didn doesn don hadn hasn haven isn ll mightn mustn shan shouldn ve wasn weren wouldn"
FEW = 20  # documents
MAX_FEATURES = 50_000


@dataclass(frozen=True)
class Pruning:
    """Which words to leave out.

    Parameters
    ----------
    stop_words : str
        ``"english"``, ``"none"``, or a UTF-8 file with a word on each line.
    min_df, max_df : float, optional
        Leave out words in fewer, or in more, documents than that: a share below 1 (`max_df`: up to 1), else a number.
    max_features : int
        The most words kept, the most frequent first.
    """

    stop_words: str = "english"
    min_df: float | None = None
    max_df: float | None = None
    max_features: int = MAX_FEATURES

    def __post_init__(self) -> None:
        for name in ("min_df", "max_df"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ParameterError(f"{name} must be positive: a share of the documents or their number; got {value}")
        if self.max_features < 1:
            raise ParameterError(f"max_features must be at least 1, got {self.max_features}")

    def limits(self, n_documents: int) -> tuple[float, float]:
        """The fewest and the most documents that a word may be in."""
        few = n_documents < FEW
        low = self.min_df if self.min_df is not None else 1 if few else max(2, round(n_documents**0.5 / 20))
        high = self.max_df if self.max_df is not None else 1.0 if few else 0.5
        return low if low >= 1 else low * n_documents, high if high > 1 else high * n_documents

    def left_out(self) -> list[str]:
        """The stop words."""
        if self.stop_words == "none":
            return []
        if self.stop_words == "english":
            from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

            return sorted(ENGLISH_STOP_WORDS | set(SCRAPS.split()))
        try:
            lines = Path(self.stop_words).read_text("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise DataError(f"{self.stop_words} is not UTF-8 text: save it as UTF-8") from error
        except OSError as error:
            raise ParameterError(
                f"stop_words must be english, none, or a file with a word on each line; cannot read {self.stop_words!r}"
            ) from error
        return sorted({word for line in lines for word in _tokens(line)})


@dataclass(frozen=True)
class Vocabulary:
    """The words of a fit.

    Parameters
    ----------
    words : tuple of V str
        In the order of the columns of counts.
    token_pattern : str
        The regular expression of a word, after lower case.
    """

    words: tuple[str, ...]
    token_pattern: str = TOKEN

    def count(self, texts: Iterable[str | None]) -> Any:
        """(n, V) CSR matrix of counts of these words in texts."""
        vectorizer = _vectorizer(token_pattern=self.token_pattern, vocabulary=self.words)
        return _csr(vectorizer.transform(text or "" for text in texts))


def learn(texts: Iterable[str | None], pruning: Pruning) -> tuple[Vocabulary, Any, list[str]]:
    """The vocabulary of texts, their counts, and what to know about them.

    Parameters
    ----------
    texts : iterable of n str or None
        Read once.
    pruning : Pruning
        Which words to leave out.

    Returns
    -------
    (Vocabulary, (n, V) CSR matrix of int32, list of str)
    """
    vectorizer = _vectorizer(token_pattern=TOKEN, stop_words=pruning.left_out() or None)
    tally = _Tally()
    try:
        X = _csr(vectorizer.fit_transform(tally.over(texts)))
    except ValueError as error:
        if "empty vocabulary" not in str(error):
            raise
        raise DataError(f"{tally.n:,} documents hold no words but stop words: is this the column of text?") from error
    words, kept = vectorizer.get_feature_names_out(), _kept(X, pruning)
    X = X[:, kept]
    return Vocabulary(tuple(words[kept].tolist())), X, tally.notes(int((np.diff(X.indptr) == 0).sum()))


@dataclass
class _Tally:
    """How many texts have passed, and how many of them were missing or blank."""

    n: int = 0
    missing: int = 0
    blank: int = 0

    def over(self, texts: Iterable[str | None]) -> Iterator[str]:
        for text in texts:
            self.n += 1
            self.missing += text is None
            self.blank += text is not None and not text.strip()
            yield text or ""

    def notes(self, n_empty: int) -> list[str]:
        told = {"have no text (null)": self.missing, "are blank": self.blank}
        told["have none of the words kept"] = n_empty - self.missing - self.blank
        return [f"{n:,} of {self.n:,} documents {what}; their topics are the prior's." for what, n in told.items() if n]


def _vectorizer(**options: Any) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(preprocessor=_plain, dtype=np.int32, **options)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).lower()


def _tokens(text: str) -> list[str]:
    words: list[str] = _vectorizer(token_pattern=TOKEN).build_analyzer()(text)
    return words


def _csr(X: Any) -> Any:
    import scipy.sparse as sp

    X = sp.csr_array(X)
    X.sort_indices()
    return X


def _kept(X: Any, pruning: Pruning) -> IntArray:
    """Words that are neither too rare nor too common, at most `max_features` of them."""
    n_documents = np.bincount(X.indices, minlength=X.shape[1])
    low, high = pruning.limits(X.shape[0])
    kept = np.flatnonzero((n_documents >= low) & (n_documents <= high))
    if not kept.size:
        raise DataError(
            f"no word is in at least {low:.6g} and at most {high:.6g} of the {X.shape[0]:,} documents: "
            "lower min_df or raise max_df"
        )
    if kept.size > pruning.max_features:
        n_tokens = np.bincount(X.indices, X.data, minlength=X.shape[1])[kept]
        kept = np.sort(kept[np.argsort(-n_tokens, kind="stable")[: pruning.max_features]])
    return kept
