"""From what a user holds to what a family reads."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from weald._validate import (
    Schema,
    check_amount,
    check_count,
    columns_of,
    numeric_matrix,
    table_from,
    weights_for,
)
from weald.exceptions import DataError, DataWarning, ParameterError

FRAME = {
    "real": [0.5, None, 2.5],
    "count": [1, 2, 3],
    "count_gap": [1, None, 3],
    "signed": [-1, 0, 1],
    "signed_gap": [-1, None, 1],
    "flag": [True, False, True],
    "flag_gap": [True, None, False],
    "text": ["b", "a", "b"],
    "text_gap": ["b", None, "a"],
}
KINDS = (
    "gaussian",
    "poisson",
    "poisson",
    "gaussian",
    "gaussian",
    "bernoulli",
    "bernoulli",
    "categorical",
    "categorical",
)
CODES = np.array(
    [
        [0.5, 1, 1, -1, -1, 1, 1, 1, 1],
        [np.nan, 2, np.nan, 0, np.nan, 0, np.nan, 0, np.nan],
        [2.5, 3, 3, 1, 1, 1, 0, 1, 0],
    ]
)


def nullable(columns):
    return pd.DataFrame({name: pd.Series(cells).convert_dtypes() for name, cells in columns.items()})


def objects(columns):
    return pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table, nullable, objects])
def test_kinds_and_codes_of_every_container(make):
    X = make(FRAME)
    schema = Schema.learn(X)
    assert schema.kinds == KINDS
    np.testing.assert_array_equal(schema.encode(X), CODES)
    assert schema.n_levels == (0, 0, 0, 0, 0, 0, 0, 2, 2)


def test_kinds_of_plain_pandas():
    schema = Schema.learn(pd.DataFrame(FRAME))
    assert schema.kinds[:2] + schema.kinds[3:4] + schema.kinds[5:] == (
        "gaussian", "poisson", "gaussian", "bernoulli", "bernoulli", "categorical", "categorical",
    )  # fmt: skip


def test_one_schema_reads_every_container():
    schema = Schema.learn(nullable(FRAME))
    for make in (pl.DataFrame, pa.table, objects):
        np.testing.assert_array_equal(schema.encode(make(FRAME)), CODES)


@pytest.mark.parametrize(
    "column",
    [
        pd.Categorical(["b", None, "a"], categories=["b", "a", "never"]),
        pl.Series(["b", None, "a"], dtype=pl.Categorical),
        pl.Series(["b", None, "a"], dtype=pl.Enum(["b", "a"])),
        pa.array(["b", None, "a"]).dictionary_encode(),
    ],
)
def test_categories(column):
    make = {"p": pd.DataFrame, "l": pl.DataFrame, "a": pa.table}
    kind = "p" if isinstance(column, pd.Categorical) else "l" if isinstance(column, pl.Series) else "a"
    X = make[kind]({"c": column})
    schema = Schema.learn(X)
    assert schema == Schema(("categorical",), (("a", "b"),))
    np.testing.assert_array_equal(schema.encode(X)[:, 0], [1, np.nan, 0])


def test_arrays_have_columns_too():
    schema = Schema.learn(np.array([["a", "x"], ["b", "x"]]))
    assert schema.kinds == ("categorical", "categorical")
    assert schema.levels == (("a", "b"), ("x",))
    mixed = np.array([[1, "x", None], [2, "y", True]], dtype=object)
    assert Schema.learn(mixed).kinds == ("poisson", "categorical", "bernoulli")


def test_numbers_as_levels():
    X = np.array([[3.0, 10], [1, 10], [np.nan, 20]])
    schema = Schema.learn(X, "categorical")
    np.testing.assert_array_equal(schema.encode(X), [[1, 0], [0, 0], [np.nan, 1]])
    np.testing.assert_array_equal(schema.encode(np.array([[1, 20]])), [[0, 1]])


def test_levels_of_several_types_are_text():
    X = pd.DataFrame({"c": [1, "a", 2.5, None]})
    schema = Schema.learn(X)
    assert schema.levels == (("1", "2.5", "a"),)
    np.testing.assert_array_equal(schema.encode(X)[:, 0], [0, 2, 1, np.nan])


def test_unseen_levels():
    schema = Schema.learn(pd.DataFrame({"c": ["a", "b"]}))
    with pytest.warns(DataWarning, match="'c'.*'z'"):
        out = schema.encode(pd.DataFrame({"c": ["z", "b", None]}))
    np.testing.assert_array_equal(out[:, 0], [np.nan, 1, np.nan])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schema.encode(pd.DataFrame({"c": [None, "b"]}))


def test_a_column_without_cells():
    X = pd.DataFrame({"c": [None, None], "x": [np.nan, np.nan]})
    schema = Schema.learn(X)
    assert schema.kinds == ("gaussian", "gaussian")
    assert np.isnan(schema.encode(X)).all()


def test_text_in_a_column_of_numbers():
    schema = Schema.learn(pd.DataFrame({"x": [1.0, 2.5]}))
    with pytest.raises(DataError, match="'x' is not numeric"):
        schema.encode(pd.DataFrame({"x": ["a", "b"]}))


def test_nobody_changes_the_table():
    X = objects(FRAME)
    before = X.copy(deep=True)
    Schema.learn(X).encode(X)
    pd.testing.assert_frame_equal(X, before)


@pytest.mark.parametrize(
    "X", [sp.csr_array((2, 2)), np.zeros(3), np.empty((0, 2)), pd.DataFrame(), pa.table({"a": []})]
)
def test_no_columns(X):
    with pytest.raises(DataError):
        columns_of(X)


class Reader(BaseEstimator):
    """Something to validate for."""


def read(X, *, estimator=None, reset=True, allow_nan=False, sparse=False, **kwargs):
    return numeric_matrix(estimator or Reader(), X, reset=reset, allow_nan=allow_nan, sparse=sparse, **kwargs)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, bool, np.float16, np.float32, np.float64])
def test_numbers_of_every_type(dtype):
    out = read(np.ones((3, 2), dtype))
    assert out.dtype == (dtype if dtype in (np.float32, np.float64) else np.float64)
    assert out.flags.c_contiguous


def test_validated_arrays_are_not_copied():
    X = np.ones((3, 2))
    assert np.shares_memory(read(X), X)
    C = sp.csr_array(X)
    assert np.shares_memory(read(C, sparse=True).data, C.data)
    assert read(np.asfortranarray(X)).flags.c_contiguous


def test_nan_and_infinity_are_found_anywhere():
    X = np.ones((10_000, 3))
    X[9_000, 2] = np.nan
    with pytest.raises(DataError, match="NaN in column 2, row 9000"):
        read(X)
    assert np.isnan(read(X, allow_nan=True)[9_000, 2])
    X[9_500, 1] = -np.inf
    with pytest.raises(DataError, match="infinity in column 1, row 9500"):
        read(X, allow_nan=True)


def test_names_are_remembered_and_checked():
    reader, X = Reader(), pd.DataFrame({"a": [1.0], "b": [2.0]})
    read(X, estimator=reader)
    assert reader.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(DataError, match="order"):
        read(X[["b", "a"]], estimator=reader, reset=False)
    reader = Reader()
    read(np.ones((2, 2)), estimator=reader)
    with pytest.raises(DataError, match="3 features"):
        read(np.ones((2, 3)), estimator=reader, reset=False)


def test_sparse_only_where_welcome():
    with pytest.raises(TypeError, match=r"(?i)sparse"):
        read(sp.csr_array((2, 2)))
    assert sp.issparse(read(sp.csc_array(np.eye(2)), sparse=True))


def test_weights():
    X = np.ones((3, 1))
    assert weights_for(None, X) is None
    np.testing.assert_array_equal(weights_for([1, 0, 2], X), [1.0, 0.0, 2.0])
    np.testing.assert_array_equal(weights_for(2, X), [2.0, 2.0, 2.0])
    for wrong in ([1, 2], [[1, 2, 3]], [1, -1, 1], [1, np.nan, 1], [0, 0, 0], ["a", "b", "c"], {"a": 1}):
        with pytest.raises(DataError, match="sample_weight"):
            weights_for(wrong, X)


def test_parameters():
    check_count("n", np.int32(3))
    check_amount("a", 0)
    check_amount("a", np.float32(2.5))
    for wrong in (0, -1, 1.0, True, "1", None):
        with pytest.raises(ParameterError, match="n must be a positive int"):
            check_count("n", wrong)
    for wrong in (-1, np.inf, np.nan, "1", None, True):
        with pytest.raises(ParameterError, match="a must be a finite number"):
            check_amount("a", wrong)


def test_paths(tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_array_equal(table_from(tmp_path / "x.npy"), X)
    (tmp_path / "x.csv").write_text("a,b\n0,1\n2,3\n")
    assert table_from(str(tmp_path / "x.csv")).column_names == ["a", "b"]
    assert table_from(X) is X
    with pytest.raises(DataError, match="no file"):
        table_from(tmp_path / "y.csv")
