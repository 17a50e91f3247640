"""Where chains of partitions begin: cells of a few rows, or the clusters found in some rows of many.

`voronoi` gives the cells of a few random rows; log of their number is uniform, so that chains begin far apart.

`from_some` spares large data most of the way. Three steps, each on more rows than the one before:

1. A short tree-guided chain on `SOME_ROWS` rows. It begins with many cells: of hundreds of clusters, halves are merged
   sooner than a few large ones are split.
2. `MORE_ROWS` rows tell apart what so few could not. Every cluster is cut in two, as `weald.mixtures.relocate` does it,
   and stays cut where the evidence of the labels rises for it; then come sweeps of the parallel sampler, whose moves
   merge what was cut in vain. `ROUNDS` times.
   With fewer than twice as many rows in all the chain itself is as quick.
3. The labels of all rows are drawn from the clusters that there are now.

Random moves need many sweeps over all rows for what step 2 finds at once: with a million rows in 200 clusters (32
columns) the chain on few rows leaves four pairs of clusters united, which a cut of every cluster parts. A start is no
draw: it may be greedy.

    >>> z = from_some(rows, prior, Threads(1), rng)                         # doctest: +SKIP
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from sklearn.metrics import pairwise_distances_argmin

from weald._random import sweep_key
from weald._typing import FloatArray, IntArray, Matrix
from weald.assign import ExactAssignment, Rows, sample_all
from weald.engine import Threads
from weald.mixtures.parallel import ParallelKernel
from weald.mixtures.relocate import cut, cut_gain, promising, score_halves
from weald.mixtures.tree_guided import TreeGuidedKernel
from weald.partitions import AbstractPartition, FiniteDirichlet

SOME_ROWS, SOME_SWEEPS = 5_000, 50
SOME_CELLS = (100, 500)  # log-uniform
MORE_ROWS, ROUNDS, SWEEPS = 50_000, 2, 2
CANDIDATES = 4  # one cluster in so many is cut at a time at most


def guess(n: int) -> int:
    """A first guess of the number of clusters, for scales and starts: log2 of the number of rows."""
    return 1 + int(math.log2(n))


def voronoi(rows: Rows, rng: np.random.Generator, k: int | None = None) -> IntArray:
    """(n,): labels by the nearest of k random rows; by default log k is uniform up to log of a guess.

    Few rather than many: moves split a large cluster more readily than they merge the halves of one.
    """
    if k is None:
        k = min(int(math.exp(rng.uniform(0.0, math.log(guess(rows.n_rows) + 1)))), rows.n_rows)
    C: Matrix = rows.family.coordinates(rows.X)
    chosen = rng.choice(rows.n_rows, k, replace=False)
    return np.asarray(pairwise_distances_argmin(C, C[chosen]))


def from_some(rows: Rows, prior: AbstractPartition, engine: Threads, rng: np.random.Generator) -> IntArray:
    """(n,): labels of all rows by the clusters that are found in some of them."""
    few = chosen(rows, SOME_ROWS, rng)
    z, S = short_chain(few, prior, rng)
    if few is rows:
        return z
    if rows.n_rows >= 2 * MORE_ROWS:
        S = refined(chosen(rows, MORE_ROWS, rng), S, prior, engine, rng)
    return labelled(rows, S, engine, rng)


def chosen(rows: Rows, most: int, rng: np.random.Generator) -> Rows:
    """At most so many of the rows, at random."""
    if rows.n_rows <= most:
        return rows
    return rows.taken(np.sort(rng.choice(rows.n_rows, most, replace=False)))


def short_chain(rows: Rows, prior: AbstractPartition, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Labels (n,) and statistics (k, p) where a tree-guided chain ends that begins with many cells."""
    n_cells = min(int(math.exp(rng.uniform(*np.log(SOME_CELLS)))), rows.n_rows)
    first, seed = partial(voronoi, rows, k=n_cells), int(rng.integers(2**31))
    kernel = TreeGuidedKernel(rows, prior, first=first, most=2 * SOME_CELLS[1], seed=seed)
    state = kernel.init(rng)
    for _ in range(SOME_SWEEPS):
        state, _ = kernel.step(rng, state)
    return state.z, state.S


def refined(
    rows: Rows, S: FloatArray, prior: AbstractPartition, engine: Threads, rng: np.random.Generator
) -> FloatArray:
    """Statistics (k', p) of the clusters of these rows, which begin as those with statistics S (k, p) of others."""
    kernel = ParallelKernel(rows, prior, ExactAssignment(), engine)
    state = kernel.begun(labelled(rows, S, engine, rng), rng)
    for _ in range(ROUNDS):
        state = kernel.begun(divided(rows, state.S, state.z, rng), rng)
        for _ in range(SWEEPS):
            state, _ = kernel.step(rng, state)
    return state.S


def divided(rows: Rows, S: FloatArray, z: IntArray, rng: np.random.Generator) -> IntArray:
    """(n,): labels after every cluster of labels z with statistics S (k, p) is cut that is better in two."""
    k, prior = len(S), FiniteDirichlet(len(S), 1.0)
    halves, promise = promising(z, rows, k, prior, rng)
    at = np.argsort(-promise, kind="stable")[: 1 + k // CANDIDATES]
    at = at[np.isfinite(promise[at])]
    if not at.size:
        return z
    second, found = cut(S, z, rows, at, score_halves(halves[at], rows.family))
    better = at[cut_gain(S[at], found, rows.family, prior) > 0.0]
    name = np.arange(k, dtype=np.int32)
    name[better] = np.arange(k, k + better.size)
    after = z.copy()
    after[second] = name[z[second]]
    return after


def labelled(rows: Rows, S: FloatArray, engine: Threads, rng: np.random.Generator) -> IntArray:
    """(n,): labels drawn from clusters whose statistics S (k, p) come from these rows or others."""
    exact, log_w = ExactAssignment(), np.log(S[:, -1] / S[:, -1].sum())
    plan, _ = exact.refresh(exact.prepare(rows), rows.family.mode_eta(S), log_w, 0, {})
    none = np.full(rows.n_rows, -1, np.int32)
    return sample_all(exact, plan, rows, none, S, {}, sweep_key(rng), engine).z
