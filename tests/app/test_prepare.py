"""Columns, families and scales are chosen as documented, and unusable columns are refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from weald.app.prepare import Features, Settings, choose_features, join_names, used_columns
from weald.app.readers import Table
from weald.exceptions import DataError, ParameterError


def table(**columns):
    return Table(tuple(columns), {name: np.asarray(cells) for name, cells in columns.items()})


TEXT = np.array(["a", "b", None], object)


@pytest.mark.parametrize(
    ("columns", "family", "kinds"),
    [
        ({"a": [1.5, 2, 3], "b": [4, 5, 7]}, "gaussian", ("float", "float")),
        ({"a": [0, 1, 1], "b": [True, False, True]}, "bernoulli", ("float", "bool")),
        ({"a": [0.5, 1, 1], "b": [True, False, True]}, "mixed", ("float", "bool")),
        ({"a": [0, 5, 9], "b": TEXT, "c": [18, 70, 30]}, "mixed", ("count", "text", "float")),
    ],
)
def test_auto_family_and_kinds(columns, family, kinds):
    features, _ = choose_features(table(**columns), Settings(k=2))
    assert (features.family, features.kinds) == (family, kinds)


def test_scaling_standard_and_robust():
    data = table(a=[1.0, 2.0, 3.0, np.nan, 100.0], b=[5.0] * 5)
    features, _ = choose_features(data, Settings(k=2, covariance="diag", scale="standard"))
    X = features.matrix(data)
    assert np.nanmean(X[:, 0]) == pytest.approx(0)
    assert np.nanstd(X[:, 0]) == pytest.approx(1)
    np.testing.assert_array_equal(X[:, 1], 0)
    robust, _ = choose_features(data, Settings(k=2, covariance="diag", scale="robust"))
    low, middle, high = np.nanquantile(data.columns["a"], [0.25, 0.5, 0.75])
    assert robust.centre[0] == middle
    assert robust.spread[0] == pytest.approx((high - low) / 1.349)
    with pytest.raises(ParameterError, match="scale 'standard' makes no sense for the poisson family"):
        choose_features(table(a=[1, 2]), Settings(k=1, family="poisson", scale="standard"))


def test_mixed_scaling_leaves_counts_truth_and_text():
    data = table(a=[1.5, 2.5, 9.0], n=[0, 3, 5], t=[True, False, True], s=TEXT)
    features, _ = choose_features(data, Settings(k=2, scale="standard"))
    assert features.spread[1:] == (1.0, 1.0, 1.0)
    arrow = features.matrix(data)
    assert arrow.column_names == ["a", "n", "t", "s"]
    assert str(arrow.schema.field("n").type) == "int64"
    assert np.std(arrow["a"].to_numpy()) == pytest.approx(1)


def test_matrix_reads_by_name_and_kind():
    fitted = Features(("a", "t", "s"), ("float", "bool", "text"), "mixed", (0.0,) * 3, (1.0,) * 3)
    new = table(s=[1, 2], extra=[9, 9], t=[1.0, np.nan], a=[3, 4])
    arrow = fitted.matrix(new)
    assert arrow.column_names == ["a", "t", "s"]
    assert arrow["t"].to_pylist() == [True, None]
    assert arrow["s"].to_pylist() == ["1", "2"]
    with pytest.raises(DataError, match="no column 't', 's'"):
        fitted.matrix(table(a=[1.0]))
    with pytest.raises(DataError, match="column 'a' holds text, but the model was fitted on numbers"):
        fitted.matrix(table(a=TEXT, t=[True] * 3, s=TEXT))


def test_unusable_columns_are_refused_by_name():
    days = np.array(["2024-01-01", "2024-01-02"], "datetime64[D]")
    with pytest.raises(DataError, match=r"'day' holds dates: .*--exclude day"):
        choose_features(table(day=days), Settings(k=1))
    names = np.array([f"n{i}" for i in range(30)], object)
    with pytest.raises(DataError, match=r"every cell of 'name' is different.*--id name"):
        choose_features(table(name=names), Settings(k=1))
    with pytest.raises(DataError, match=r"'a' misses cells, which gaussian with covariance full.*--covariance diag"):
        choose_features(table(a=[1.0, np.nan]), Settings(k=1))
    with pytest.raises(DataError, match="no columns are left"):
        used_columns(table(a=[1.0]), Settings(k=1, id="a"))
    with pytest.raises(DataError, match="no column 'b'"):
        used_columns(table(a=[1.0]), Settings(k=1, exclude=("b",)))


def test_notes_tell_of_counters_constants_and_holes():
    data = table(row=np.arange(30), flat=np.ones(30), holes=np.where(np.arange(30) < 3, np.nan, 1.0))
    _, notes = choose_features(data, Settings(k=2, covariance="diag"))
    assert notes == [
        "Column 'row' counts the rows; pass it as the id or exclude it.",
        "Column 'flat' is constant and tells clusters nothing.",
        "Column 'holes' misses 10.0 % of its cells.",
    ]


@pytest.mark.parametrize(
    "wrong", [{"k": 0}, {"family": "gauss"}, {"covariance": "x"}, {"inference": "x"}, {"scale": "x"}, {"seed": -1}]
)
def test_settings_refuse_wrong_values_by_name(wrong):
    [name] = wrong
    with pytest.raises(ParameterError, match=f"^{name} must be"):
        Settings(**{"k": 2, **wrong})


WITHOUT_K = {
    "em needs k": ({"inference": "em"}, r"em, sem, gibbs, vb with k, or one of auto, collapsed.* got 'em' without k"),
    "collapsed finds k": ({"k": 2, "inference": "collapsed"}, "got 'collapsed' with k 2"),
    "prior with k": ({"k": 2, "prior": "dp"}, "prior dp is about an unknown number of clusters"),
    "unknown prior": ({"prior": "crp"}, "prior must be one of dp, pitman-yor"),
    "tied": ({"covariance": "tied"}, "covariance tied needs k"),
    "starts": ({"n_init": 3}, "n_init counts starts"),
    "sweeps of vb": ({"inference": "vb", "max_iter": 50}, "vb stops by itself"),
    "prior of vb": ({"inference": "vb", "prior": "mfm"}, "vb knows prior dp only"),
}


@pytest.mark.parametrize("case", WITHOUT_K)
def test_what_goes_only_with_or_only_without_k(case):
    options, message = WITHOUT_K[case]
    with pytest.raises(ParameterError, match=message):
        Settings(**options)


def test_names_with_commas_survive_the_command_line():
    from weald.app.commands import _names

    names = ("a", "b, c", 'd "quoted", e', "f g")
    assert _names(join_names(names)) == names
