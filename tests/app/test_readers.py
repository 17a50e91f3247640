"""Every format reads what was written; every damaged file is one clear `DataError`."""

from __future__ import annotations

import gzip
import io
import sys
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weald._atomic import replacing
from weald.app.readers import Table, read_table, write_table
from weald.exceptions import DataError, MissingExtraError, ParameterError

COLUMNS = {
    "height": np.array([1.7, np.nan, 1.9]),
    "visits": np.array([3, 0, 7]),
    "member": np.array([True, False, True]),
    "city": np.array(["Ayr", None, 'Bo, "x"'], object),
}


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".npz"])
def test_round_trip(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    write_table(path, COLUMNS)
    table = read_table(path)
    assert table.names == tuple(COLUMNS)
    assert [table.kind(name) for name in table.names] == ["float", "int", "bool", "text"]
    for name, cells in COLUMNS.items():
        np.testing.assert_array_equal(table.columns[name], cells)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".npz"])
def test_gzip(tmp_path, suffix):
    write_table(tmp_path / f"table{suffix}", COLUMNS)
    packed = tmp_path / f"table{suffix}.gz"
    packed.write_bytes(gzip.compress((tmp_path / f"table{suffix}").read_bytes()))
    np.testing.assert_array_equal(read_table(packed).columns["visits"], [3, 0, 7])


def test_npy_matrix_vector_and_records(tmp_path):
    np.save(tmp_path / "m.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    table = read_table(tmp_path / "m.npy")
    assert table.names == ("x0", "x1")
    np.testing.assert_array_equal(table.numeric(), [[0, 1], [2, 3], [4, 5]])
    np.save(tmp_path / "v.npy", np.arange(3))
    assert read_table(tmp_path / "v.npy").names == ("x",)
    np.save(tmp_path / "r.npy", np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]))
    assert read_table(tmp_path / "r.npy").names == ("a", "b")


def test_npy_and_npz_need_no_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    write_table(tmp_path / "t.npz", {"a": np.array([1.0]), "file": np.array([2])})
    assert read_table(tmp_path / "t.npz").names == ("a", "file")
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(MissingExtraError, match=r"pip install 'weald\[app\]'"):
        read_table(tmp_path / "t.csv")


def test_selection_keeps_order_and_explains_unknown_names(tmp_path):
    for suffix in (".csv", ".parquet", ".npz"):
        path = tmp_path / f"t{suffix}"
        write_table(path, COLUMNS)
        assert read_table(path, columns=["visits", "height"]).names == ("visits", "height")
        assert read_table(path, exclude=["city"]).names == ("height", "visits", "member")
        with pytest.raises(DataError, match=r"no column 'hieght'; did you mean 'height'.*visits, member, city"):
            read_table(path, columns=["hieght"])


def test_numbers_that_change_type_late_in_a_large_file(tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("a,b\n" + "1,2\n" * 400_000 + "1.5,x\n")
    table = read_table(path)
    assert (table.kind("a"), table.kind("b")) == ("float", "text")
    assert table.columns["a"][-1] == 1.5


def test_delimiters_bom_and_quoted_newlines(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeffa;b\n1;x\n2;y\n".encode())
    assert read_table(path).names == ("a", "b")
    path.write_text('a,b\n1,"two\nlines"\n')
    assert read_table(path).columns["b"][0] == "two\nlines"


@pytest.mark.parametrize("form", ["csv", "parquet", "npy", "npz", "gz"])
def test_standard_input_is_recognised_by_its_first_bytes(tmp_path, monkeypatch, form):
    if form == "npy":
        np.save(tmp_path / "t.npy", np.ones((2, 1)))
        data = (tmp_path / "t.npy").read_bytes()
    elif form == "gz":
        data = gzip.compress(b"x0\n1\n1\n")
    else:
        write_table(tmp_path / f"t.{form}", {"x0": np.ones(2)})
        data = (tmp_path / f"t.{form}").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    np.testing.assert_array_equal(read_table("-").numeric(), np.ones((2, 1)))


def test_arrow_types_become_plain_kinds(tmp_path):
    path = tmp_path / "t.parquet"
    table = pa.table(
        {
            "level": pa.array(["a", "b", None]).dictionary_encode(),
            "flag": pa.array([True, None, False]),
            "count": pa.array([1, None, 3], pa.int32()),
            "small": pa.array([1.5, 2.5, None], pa.float32()),
            "nothing": pa.nulls(3),
            "day": pa.array([date(2024, 1, 1)] * 3),
            "money": pa.array([1, 2, 3], pa.decimal128(5, 2)),
        }
    )
    pq.write_table(table, path)
    read = read_table(path)
    assert [read.kind(name) for name in read.names] == ["text", "float", "float", "float", "float", "time", "float"]
    np.testing.assert_array_equal(read.columns["flag"], [1.0, np.nan, 0.0])
    assert str(read.columns["day"][0])[:10] == "2024-01-01"
    pq.write_table(pa.table({"a": [[1, 2]]}), path)
    with pytest.raises(DataError, match="column 'a' has type list"):
        read_table(path)


def test_numeric_refuses_text_and_arrow_keeps_it():
    table = Table(tuple(COLUMNS), COLUMNS)
    with pytest.raises(DataError, match="'city' holds text"):
        table.numeric()
    assert table.select(["height", "member"]).numeric().tolist()[2] == [1.9, 1.0]
    assert table.arrow()["height"].null_count == 1
    assert table.arrow()["city"].null_count == 1


DAMAGED = {
    "empty.csv": (b"", "is empty"),
    "empty.parquet": (b"", "is empty"),
    "header.csv": (b"a,b\n", "has no rows"),
    "blank.csv": (b"\n\n", "begins with an empty line"),
    "ragged.csv": (b"a,b\n1,2\n3\n", "Expected 2 columns, got 1"),
    "twice.csv": (b"a,b,a\n1,2,3\n", "names 'a' more than once"),
    "latin.csv": ("a\ncaf\xe9\n".encode("latin-1"), "not UTF-8"),
    "table.xlsx": (b"x", "cannot tell the format"),
    "noname": (b"x", "cannot tell the format"),
    "text.parquet": (b"a,b\n1,2\n", "cannot read"),
    "text.npy": (b"a,b\n1,2\n", "cannot read"),
    "text.npz": (b"a,b\n1,2\n", "cannot read"),
    "text.csv.gz": (b"a,b\n1,2\n", "cannot read"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_unusable_files_are_one_clear_line(tmp_path, name):
    data, message = DAMAGED[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        read_table(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".npy", ".csv.gz"])
def test_half_written_files(tmp_path, suffix):
    path = tmp_path / f"half{suffix}"
    if suffix == ".npy":
        np.save(path, np.ones((1000, 3)))
    elif suffix == ".csv.gz":
        path.write_bytes(gzip.compress(np.random.default_rng(0).bytes(5000)))
    else:
        write_table(path, {"a": np.random.default_rng(0).random(1000)})
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match="cannot read"):
        read_table(path)


def test_pickled_arrays_are_refused(tmp_path):
    np.save(tmp_path / "o.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(DataError, match="cannot read"):
        read_table(tmp_path / "o.npy")


def test_missing_file_folder_and_bad_target(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        read_table(tmp_path / "no.csv")
    with pytest.raises(DataError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(ParameterError, match="must end in"):
        write_table(tmp_path / "t.xlsx", COLUMNS)


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("old")

    def interrupted() -> None:
        with replacing(path) as sink:
            sink.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
