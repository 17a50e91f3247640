"""Documents from every source; every unusable one is one clear error."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma

import numpy as np
import pytest

from weald.app.readers import write_table
from weald.app.texts import Document, Fields, as_dates, names_documents, read_texts
from weald.exceptions import DataError, ParameterError

ROWS = [
    {"body": "Tea and milk", "key": 7, "day": "2024-05-31", "stars": 4},
    {"body": None, "key": 8, "day": None, "stars": 2},
    {"body": "Caf\u00e9 \u4eac\u90fd", "key": 9, "day": "2023", "stars": 1},
]
FIELDS = Fields("body", id="key", date="day")
DOCUMENTS = [
    Document("Tea and milk", 7, "2024-05-31"),
    Document(None, 8, None),
    Document("Caf\u00e9 \u4eac\u90fd", 9, "2023"),
]


def write_lines(path, rows, opened=open):
    with opened(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


@pytest.mark.parametrize(
    ("suffix", "opened"),
    [(".jsonl", open), (".jsonl.gz", gzip.open), (".ndjson.xz", lzma.open), (".jsonl.bz2", bz2.open)],
)
def test_json_lines_plain_and_packed(tmp_path, suffix, opened):
    path = write_lines(tmp_path / f"corpus{suffix}", ROWS, opened)
    assert list(read_texts(path, FIELDS)) == DOCUMENTS


def test_json_lines_may_have_blank_lines_a_bom_and_absent_fields(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"body": "one", "key": 1}\n\n{"key": 2}\n')
    assert list(read_texts(path, Fields("body", id="key"))) == [Document("one", 1), Document(None, 2)]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".npz", ".csv.gz", ".csv.xz"])
def test_tables(tmp_path, suffix):
    form, _, packed = suffix[1:].partition(".")
    path = tmp_path / f"corpus.{form}"
    write_table(
        path,
        {name: np.array([row[name] for row in ROWS], object if name in ("body", "day") else int) for name in ROWS[0]},
    )
    if packed:
        data, path = path.read_bytes(), tmp_path / f"corpus{suffix}"
        path.write_bytes({"gz": gzip.compress, "xz": lzma.compress}[packed](data))
    assert list(read_texts(path, FIELDS)) == DOCUMENTS


def test_a_folder_is_read_in_the_order_of_names(tmp_path):
    (tmp_path / "b.txt").write_text("second", "utf-8-sig")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.txt").write_text("first\nlines")
    (tmp_path / "readme.md").write_text("not this")
    assert list(read_texts(tmp_path, Fields())) == [Document("first\nlines", "a/x.txt"), Document("second", "b.txt")]
    assert names_documents(tmp_path, Fields()) == "file"
    assert names_documents(tmp_path / "b.jsonl", FIELDS) == "key"


BAD_LINES = {
    "typo": ('{"boddy": "x", "key": 1}', r"no column 'body'; did you mean 'boddy'\? the columns are: boddy, key"),
    "number": ('{"body": 3, "title": "x"}', r"line 1 of .*'body' holds 3, not text; fields with text: 'title'"),
    "json": ('{"body": "x"}\n{"body": ', r"line 2 of .* is no JSON"),
    "list": ("[1, 2]", "line 1 of .* holds a list, not an object"),
    "empty": ("\n", "is empty"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_bad_json_lines(tmp_path, case):
    text, message = BAD_LINES[case]
    (tmp_path / "corpus.jsonl").write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        list(read_texts(tmp_path / "corpus.jsonl", Fields("body")))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("latin.jsonl", '{"body": "caf\xe9"}'.encode("latin-1"), "line 1 of .* is not UTF-8 text"),
        ("half.jsonl.gz", gzip.compress(b'{"body": "x"}\n' * 999, mtime=0)[:-20], "cannot read"),
        ("half.jsonl.xz", lzma.compress(b'{"body": "x"}\n' * 999)[:-20], "cannot read"),
        ("plain.jsonl.gz", b'{"body": "x"}\n', "cannot read"),
        ("latin.csv", "body\ncaf\xe9\n".encode("latin-1"), "not UTF-8"),
        ("corpus.txt", b"words", r"cannot tell the format.*folder of \.txt files.*\.jsonl, \.ndjson, \.csv"),
        ("corpus.json", b"[]", "cannot tell the format"),
    ],
)  # fmt: skip
def test_damaged_and_unknown_files(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message):
        list(read_texts(tmp_path / name, Fields("body")))


def test_a_column_without_text_says_which_have_it(tmp_path):
    write_table(tmp_path / "t.csv", {"a": np.arange(3), "b": np.array(["x", "y", "z"], object), "c": np.ones(3)})
    with pytest.raises(DataError, match="column 'a' holds int, not text; columns with text: 'b'"):
        list(read_texts(tmp_path / "t.csv", Fields("a")))
    with pytest.raises(DataError, match="no column 'text'; the columns are: a, b, c"):
        list(read_texts(tmp_path / "t.csv", Fields()))
    for path in ("nowhere.csv", "nowhere.jsonl", "nowhere"):
        with pytest.raises(DataError, match=f"there is no file .*{path}"):
            list(read_texts(tmp_path / path, Fields()))


def test_folders_without_texts_with_wrong_bytes_and_with_columns_asked_for(tmp_path):
    with pytest.raises(DataError, match="it holds nothing"):
        list(read_texts(tmp_path, Fields()))
    (tmp_path / "a.md").write_text("x")
    with pytest.raises(DataError, match=r"there are no \.txt files in the folder .*; it holds a\.md"):
        list(read_texts(tmp_path, Fields()))
    (tmp_path / "a.txt").write_bytes("caf\xe9".encode("latin-1"))
    with pytest.raises(DataError, match=r"a\.txt is not UTF-8 text \(byte 3\)"):
        list(read_texts(tmp_path, Fields()))
    with pytest.raises(ParameterError, match="leave out id and date"):
        list(read_texts(tmp_path, FIELDS))


def test_dates_of_every_kind():
    cells = ["2024-05-31", "2024-05", "2024", 2024, 2024.0, "2024-05-31T12:00:00+02:00", None, "", np.nan]
    expected = ["2024-05-31", "2024-05-01", *["2024-01-01"] * 3, "2024-05-31T10:00:00", "NaT", "NaT", "NaT"]
    np.testing.assert_array_equal(as_dates(cells, "day"), np.array(expected, "datetime64[s]"))
    days = np.array(["2024-05-31", "NaT"], "datetime64[D]")
    np.testing.assert_array_equal(as_dates(days, "day"), days.astype("datetime64[s]"))
    for cell in ("31/12/2024", 20240531, True, "soon"):
        with pytest.raises(DataError, match=r"'day' holds .* no date: write dates like 2024-05-31, or years"):
            as_dates([cell], "day")
