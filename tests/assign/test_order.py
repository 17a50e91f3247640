"""Rows in an order that keeps neighbours together, and ellipsoids that hold them."""

import numpy as np
import pytest

from weald.assign.order import hulls_of, nearby_order
from weald.exceptions import ParameterError


def spread_within(C, size):
    runs = C[: len(C) // size * size].reshape(-1, size, C.shape[1])
    return runs.var(axis=1).sum()


@pytest.mark.parametrize("n", [1, 63, 64, 65, 4096, 4097, 20_000])
def test_every_row_comes_once(n, rng):
    order = nearby_order(rng.normal(size=(n, 3)), 64)
    assert np.array_equal(np.sort(order), np.arange(n))


@pytest.mark.parametrize("size", [64, 256, 100])
def test_runs_are_tight(size, rng):
    C = rng.normal(size=(20_000, 2))
    order = nearby_order(C, size)
    assert spread_within(C[order], size) < 4 * size / 20_000 * spread_within(C, size)  # in the plane, as the area
    assert all(np.all(np.diff(order[a : a + size]) > 0) for a in range(0, 20_000, size))


def test_blocks_are_boxes_of_the_tree(rng):
    """The first cut is at whole blocks: on either side of it, one coordinate is smaller than on the other."""
    C = rng.normal(size=(3 * 4096 + 5, 2)) * [1.0, 3.0]
    sorted_ = C[nearby_order(C, 64)]
    assert sorted_[: 2 * 4096, 1].max() <= sorted_[2 * 4096 :, 1].min()


def test_rows_that_are_all_the_same():
    assert np.array_equal(np.sort(nearby_order(np.ones((500, 2)), 64)), np.arange(500))


def test_a_run_has_rows():
    with pytest.raises(ParameterError, match="size must be at least 1"):
        nearby_order(np.ones((5, 1)), 0)


def clouds(rng):
    x = rng.normal(size=(130, 2))
    outlier = x.copy()
    outlier[3] = 1e4
    binary = rng.integers(0, 2, (130, 3)).astype(float)
    binary[:, 1] = 1.0
    far = 300.0 + 0.01 * x
    return {
        "normal": x,
        "quadratic": np.column_stack([far, (far**2).sum(axis=1)]),
        "outlier": outlier,
        "binary": binary,
        "equal": np.full((130, 2), 0.1),
        "zero": np.zeros((130, 2)),
        "line": np.column_stack([x[:, 0], 3.0 * x[:, 0]]),
        "one": x[:1],
        "wide": rng.poisson(1.0, (130, 40)).astype(float),
    }


def excess(T, size, directions, shrink=1.0):
    """The largest <T_i - T_c, d> / (radius along d), and a little for rounding, over runs, rows and directions d."""
    hulls, worst = hulls_of(T, size), 0.0
    for i, form in enumerate(hulls.form):
        image = form[1:, :-1] @ directions if len(form) == T.shape[1] else form[1, :-1, None] * directions
        radius = shrink * np.sqrt((image**2).sum(axis=0)) + 1e-9 * hulls.reach[i] * np.sqrt((directions**2).sum(axis=0))
        along = (T[i * size : (i + 1) * size, :-1] - form[0, :-1]) @ directions
        worst = max(worst, float((along / radius).max()))
    return worst


@pytest.mark.parametrize("name", clouds(np.random.default_rng(0)))
def test_ellipsoids_hold_their_rows(name, rng):
    cloud = clouds(rng)[name]
    T = np.column_stack([cloud, np.ones(len(cloud))])
    directions = np.hstack([rng.normal(size=(cloud.shape[1], 500)), np.eye(cloud.shape[1])])
    assert excess(T, 64, directions) <= 1.0
    if name in ("normal", "quadratic", "outlier", "line"):
        assert excess(T, 64, directions, shrink=0.8) > 1.0


def test_rounds_make_ellipsoids_smaller(rng):
    x = rng.normal(size=(256, 3))
    cloud = np.column_stack([x, (x**2).sum(axis=1)])
    _, small = np.linalg.slogdet(hulls_of(np.column_stack([cloud, np.ones(256)]), 256).form[0, 1:, :-1])
    L = np.linalg.cholesky(np.cov(cloud.T, ddof=0))
    rho = np.linalg.norm(np.linalg.solve(L, (cloud - cloud.mean(axis=0)).T), axis=0).max()
    assert small < np.linalg.slogdet(rho * L)[1] - 2.0
