"""What sets clusters apart, on tables whose answer is clear."""

from __future__ import annotations

import numpy as np
import pytest

from weald.app.profiles import describe, design, leading, number, percent, traits
from weald.app.readers import Table


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    size = np.repeat([10.0, 20.0], 50) + rng.normal(size=100)
    plan = np.array(["basic"] * 45 + [None] * 5 + ["pro"] * 50, object)
    return Table(("size", "noise", "plan"), {"size": size, "noise": rng.normal(size=100), "plan": plan})


def test_traits_rank_numbers_and_levels_on_one_scale(table):
    labels = np.repeat([0, 1], 50)
    found = traits(table, labels, 2)
    assert [trait.name for trait in found] == ["size", "noise", "plan = pro", "plan = basic"]
    assert describe(found, 1) == "plan = pro, high size"
    assert describe(found, 0) == "plan = basic, low size"
    assert {trait.name for trait in leading(found, 0, 9)} == {"plan = basic", "plan = pro", "size"}
    pro = found[2]
    np.testing.assert_allclose(pro.inside, [0, 1], atol=1e-12)
    share = 50 / 95
    np.testing.assert_allclose(pro.difference, np.array([-1, 1]) / np.sqrt(share * (1 - share)))
    assert pro.values(1) == ("100 %", "0 %")


def test_indistinct_clusters_say_so(table):
    labels = np.arange(100) % 2
    assert describe(traits(table, labels, 2), 0) == "close to the average of the rest"


def test_design_turns_text_into_indicators(table):
    names, X = design(table, np.array([0, 47, 99]))
    assert names == ["size", "noise", "plan = basic", "plan = pro"]
    np.testing.assert_array_equal(X[:, 2:], [[1, 0], [np.nan, np.nan], [0, 1]])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 %"),
        (-1e-17, "0 %"),
        (1.0, "100 %"),
        (0.9999, "> 99 %"),
        (0.003, "< 1 %"),
        (1e-4, "< 0.1 %"),
        (0.256, "26 %"),
        (np.nan, "-"),
    ],
)
def test_percent(value, text):
    assert percent(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1234.6, "1,235"), (0.012345, "0.0123"), (-12.34, "-12.3"), (np.nan, "-"), (3e12, "3e+12")]
)
def test_number(value, text):
    assert number(value) == text
