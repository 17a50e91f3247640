"""Words of any script, what is left out, and counts that new documents share."""

from __future__ import annotations

import numpy as np
import pytest

from weald.app.wording import Pruning, Vocabulary, learn
from weald.exceptions import DataError, ParameterError


def words_of(*texts, **options):
    return list(learn(texts, Pruning(**options))[0].words)


def test_letters_of_zoo_script_are_kept_and_accents_composed():
    assert words_of("Caf\u00e9, cafe\u0301 & CAF\u00c9!", stop_words="none") == ["caf\u00e9"]
    assert words_of("\u041c\u043e\u0441\u043a\u0432\u0430 \u4eac\u90fd na\u00efve_x 42 b2b", stop_words="none") == [
        "na\u00efve", "\u043c\u043e\u0441\u043a\u0432\u0430", "\u4eac\u90fd",
    ]  # fmt: skip
    hindi = "\u0939\u093f\u0928\u094d\u0926\u0940"
    assert words_of(f"{hindi}\u0964", stop_words="none") == [hindi]


def test_stop_words_english_with_scraps_none_or_a_file(tmp_path):
    text = "The cat doesn't know what we've won"
    assert words_of(text) == ["cat", "know", "won"]
    assert "the" in words_of(text, stop_words="none")
    (tmp_path / "stop.txt").write_text("Cat\n# comment\nknow\n")
    assert words_of(text, stop_words=str(tmp_path / "stop.txt")) == ["doesn", "the", "ve", "we", "what", "won"]
    with pytest.raises(ParameterError, match="cannot read 'klingon'"):
        words_of(text, stop_words="klingon")
    (tmp_path / "latin.txt").write_bytes("caf\xe9".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        words_of(text, stop_words=str(tmp_path / "latin.txt"))


def test_rare_and_common_words_by_share_or_number():
    texts = ["zoo tea", "zoo milk tea", "zoo milk tea", "zoo rare"] * 10
    texts[0] += " lone"
    assert words_of(*texts) == ["milk", "rare"]
    assert words_of(*texts, max_df=1) == ["milk", "rare", "tea", "zoo"]
    assert words_of(*texts, max_df=1.0, min_df=1) == ["lone", "milk", "rare", "tea", "zoo"]
    assert words_of(*texts, min_df=0.3) == ["milk"]
    assert words_of(*texts, max_df=20, min_df=20) == ["milk"]
    assert words_of(*texts, max_df=30, max_features=1) == ["tea"]
    assert Pruning().limits(19) == (1, 19)
    assert Pruning().limits(40_000) == (10, 20_000)
    with pytest.raises(DataError, match="no word is in at least 41 and at most 20 of the 40 documents"):
        words_of(*texts, min_df=41)
    with pytest.raises(ParameterError, match="min_df must be positive"):
        Pruning(min_df=0)
    with pytest.raises(ParameterError, match="max_features"):
        Pruning(max_features=0)


def test_missing_blank_and_emptied_documents_stay_and_are_told():
    vocabulary, X, notes = learn(["tea milk", None, " \n", "the of", "tea"], Pruning())
    assert X.shape == (5, 2)
    assert X.toarray().tolist() == [[1, 1], [0, 0], [0, 0], [0, 0], [0, 1]]
    assert [note.split(";")[0] for note in notes] == [
        "1 of 5 documents have no text (null)",
        "1 of 5 documents are blank",
        "1 of 5 documents have none of the words kept",
    ]
    new = vocabulary.count(["Milk and coffee", None])
    assert new.toarray().tolist() == [[1, 0], [0, 0]]
    assert new.dtype == X.dtype == np.int32
    assert Vocabulary(vocabulary.words).count(["tea"]).toarray().tolist() == [[0, 1]]
    with pytest.raises(DataError, match="2 documents hold no words but stop words"):
        learn(["the", "1 2 3"], Pruning())
