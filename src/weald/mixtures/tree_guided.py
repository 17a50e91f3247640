"""Tree-guided sampling of nonparametric mixtures: split-merge moves of whole branches of a tree over the rows.

A tree G over all rows (`weald.trees.bisect`) puts alike rows side by side. It is drawn without a look at the
partition, and afresh every `PERIOD` sweeps. A move draws from G, again without a look at the partition,

    row i uniformly,  one of the nodes above it uniformly,  row j uniformly from the other child of that node,
    a grain g: 1 with probability 1/2;  4, 16, 64, n with 1/8 each;

cuts the rows c of the clusters of i and j into pieces - nodes of G restricted to c are opened as long as they hold more
than g rows or both anchors - and goes on as every split-merge move (`weald.mixtures.split_merge`). Near anchors share
a cluster more often than uniform ones, so that more splits are proposed; large grains move whole branches at once,
g = 1 is always possible.

A sweep makes such moves, redraws the labels of a share of the rows as `weald.mixtures.collapsed` does (every B-th leaf
of G, in turn, so that all rows have been seen after B sweeps), and moves the hyperparameters. The published moves, made
exact, can be added (`weald.mixtures.tree_moves`).

A tree is a pure function of the seed and of the number of the sweep, and no part of the state: resumed runs go on
exactly. Cost of a move: as in `split_merge`, and one pass over the leaves.
Reference: document 002; J. Lee, S. Choi, Tree-guided MCMC inference for normalized random measure mixture models
(2015), whose moves are not reversible and sample another law; D. Dahl (2005).

    >>> from weald.families import SphericalGaussian
    >>> from weald.inference.run import run
    >>> from weald.partitions import DirichletProcess
    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> kernel = TreeGuidedKernel(Rows(X, SphericalGaussian.from_data(X, 2)), DirichletProcess())
    >>> chain, = run(kernel, key=np.uint64(1), sweeps=20)
    >>> chain.state.z.shape
    (4,)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import sparse

from weald._kernel import kernel
from weald._random import sweep_key, uniform
from weald._typing import FloatArray, IntArray
from weald.assign import Rows
from weald.assign.base import statistics
from weald.engine import Threads
from weald.exceptions import ParameterError
from weald.inference.run import AbstractKernel
from weald.mixtures._predictive import Law
from weald.mixtures.collapsed import BIRTHS, DEATHS, Board, CollapsedKernel, PartitionState, gibbs
from weald.mixtures.split_merge import (
    ANCHOR,
    BRANCH,
    GRAIN,
    MERGES,
    ORDER,
    OTHER,
    SPLITS,
    lacking,
    settle,
    single_rows,
)
from weald.mixtures.tree_moves import Guide, regroup, revisit
from weald.partitions import AbstractPartition
from weald.trees.bisect import BisectionTree, bisect, fork

PERIOD = 50  # sweeps with one tree
GRAINS = (1, 1, 1, 1, 4, 16, 64, 2**62)  # equally probable
TRIED = 2  # in the tally, proposals stand so far behind what was accepted


@dataclass(frozen=True, eq=False)
class TreeGuidedKernel(AbstractKernel):
    """One sweep of a nonparametric mixture, guided by a tree.

    Parameters
    ----------
    rows : Rows
        The data, seen through a family whose clusters share no parameters.
    prior : AbstractPartition
        Prior of the partition, with the hyperparameters to start from.
    n_moves : int
        Split-merge moves in each sweep.
    local : float
        Share of the rows whose labels are redrawn in each sweep, one after the other; 0 to 1.
    n_regroups, n_revisits : int
        Published moves, made exact, in each sweep: of several clusters, and of one row; for statistics that are not
        too wide.
    first : callable, optional
        rng -> labels (n,) to start from; one cluster of all rows if None.
    most : int, optional
        A sweep is broken off when there are more clusters than this.
    seed : int
        Of the trees.
    """

    rows: Rows
    prior: AbstractPartition
    n_moves: int = 10
    local: float = 1.0
    n_regroups: int = 0
    n_revisits: int = 0
    first: Callable[[np.random.Generator], IntArray] | None = None
    most: int | None = None
    seed: int = 0
    _trees: dict[int, BisectionTree] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("n_regroups", "n_revisits", "seed"):
            if getattr(self, name) < 0:
                raise ParameterError(f"{name} must be 0 or more, got {getattr(self, name)!r}")
        if not 0.0 <= self.local <= 1.0:
            raise ParameterError(f"local must be a share between 0 and 1, got {self.local!r}")
        self.plain  # noqa: B018  # checks rows and n_moves

    @cached_property
    def plain(self) -> CollapsedKernel:
        """The kernel without a tree, whose starts, laws and joint are the same."""
        return CollapsedKernel(self.rows, self.prior, self.n_moves, self.first)

    @cached_property
    def T(self) -> FloatArray:
        """(n, p): statistics of the rows, for the published moves."""
        T = self.rows.family.sufficient(self.rows.X)
        return np.asarray(T.toarray() if sparse.issparse(T) else T, np.float64)

    def tree(self, sweep: int) -> BisectionTree:
        """The tree of a sweep; the last one is kept."""
        epoch = sweep // PERIOD
        if epoch not in self._trees:
            self._trees.clear()
            coordinates = self.rows.family.coordinates(self.rows.X)
            self._trees[epoch] = bisect(coordinates, np.random.default_rng([self.seed, epoch]))
        return self._trees[epoch]

    def init(self, rng: np.random.Generator) -> PartitionState:
        """The first partition, with hyperparameters drawn given it."""
        return self.plain.init(rng)

    def step(self, rng: np.random.Generator, state: PartitionState) -> tuple[PartitionState, Mapping[str, float]]:
        """Published moves, split-merge moves, a share of the rows, the hyperparameters."""
        n, tree = self.rows.n_rows, self.tree(state.sweep)
        z, n_published = self._published(rng, state, tree)
        board = Board(self.plain.laws, z, int(z.max()) + 1, state.prior, self.most, np.zeros(6, np.int64))
        board.play(tree_split_merge, self.n_moves if n > 1 else 0, tree, sweep_key(rng))
        if self.local:
            n_shares = round(1.0 / self.local)
            order = rng.permutation(tree.order[state.sweep % n_shares :: n_shares])
            board.play(gibbs, order.size, order, sweep_key(rng))
        sizes = np.bincount(board.z)
        S = statistics(self.rows, board.z, sizes.size, Threads(1))
        after = PartitionState(board.z, S, state.prior.update(sizes, rng), state.sweep + 1)
        info = {
            "n_clusters": float(sizes.size),
            "log_joint": self.log_joint(after),
            "largest": float(sizes.max() / n),
            "n_births": float(board.tally[BIRTHS]),
            "n_deaths": float(board.tally[DEATHS]),
            "n_splits": float(board.tally[SPLITS]),
            "n_merges": float(board.tally[MERGES]),
            "n_splits_proposed": float(board.tally[SPLITS + TRIED]),
            "n_merges_proposed": float(board.tally[MERGES + TRIED]),
            **n_published,
        }
        return after, info

    def log_joint(self, state: PartitionState) -> float:
        """Log p(partition, X) given the hyperparameters."""
        return self.plain.log_joint(state)

    def _published(
        self, rng: np.random.Generator, state: PartitionState, tree: BisectionTree
    ) -> tuple[IntArray, dict[str, float]]:
        """Labels after the published moves, and how many of them changed something."""
        z, changed = state.z.copy(), dict[str, float]()
        for name, move, times in (("n_regroups", regroup, self.n_regroups), ("n_revisits", revisit, self.n_revisits)):
            for _ in range(times):
                before, z = z, move(Guide(self.T, self.rows.family, state.prior, tree), z, rng)
                changed[name] = changed.get(name, 0.0) + float(z is not before)
        return z, changed


@kernel
def tree_split_merge(
    law: Law,
    z: IntArray,
    k: int,
    start: int,
    stop: int,
    tree: BisectionTree,
    key: np.uint64,
    log_size: FloatArray,
    log_ratio: FloatArray,
    log_p: FloatArray,
    tally: IntArray,
) -> tuple[int, int]:
    """Moves start, ..., stop - 1 with anchors and pieces from a tree; as `weald.mixtures.split_merge.split_merge`.

    `tally` (6,) also counts the splits and mergers that were proposed.
    """
    for move in range(start, stop):
        left, right = near_leaves(tree, key, move)
        i, j = tree.order[left], tree.order[right]
        if lacking(law, z, k, i, j, log_ratio):
            return move, k
        grain = GRAINS[int(uniform(key, GRAIN, move) * len(GRAINS))]
        if grain == 1:
            members, ends = single_rows(z, i, j, key, move)
        else:
            members, ends = branches(tree, z, left, right, grain, key, move)
        tally[(SPLITS if z[i] == z[j] else MERGES) + TRIED] += 1
        k = settle(law, z, k, z[i], z[j], members, ends, key, move, log_size, log_ratio, log_p, tally)
    return stop, k


@kernel
def near_leaves(tree: BisectionTree, key: np.uint64, move: int) -> tuple[int, int]:
    """Places of two leaves: one of all, and one from the other child of a random node above it."""
    place, v, depth = int(uniform(key, ANCHOR, move) * tree.order.size), 0, 0
    while tree.right[v] >= 0:
        v = tree.right[v] if place >= tree.start[tree.right[v]] else v + 1
        depth += 1
    v = 0
    for _ in range(int(uniform(key, BRANCH, move) * depth)):
        v = tree.right[v] if place >= tree.start[tree.right[v]] else v + 1
    other = v + 1 if place >= tree.start[tree.right[v]] else tree.right[v]
    return place, tree.start[other] + int(uniform(key, OTHER, move) * (tree.stop[other] - tree.start[other]))


@kernel
def branches(
    tree: BisectionTree, z: IntArray, left: int, right: int, grain: int, key: np.uint64, move: int
) -> tuple[IntArray, IntArray]:
    """Members of the clusters of two leaves, piece by piece: those of the two first, the others in random order.

    Returns members (m,), and where the pieces end.
    """
    a, b = z[tree.order[left]], z[tree.order[right]]
    places, m = np.empty(z.size, np.int64), 0
    for place in range(z.size):
        if z[tree.order[place]] in (a, b):
            places[m] = place
            m += 1
    first, stop, n_pieces = cut(tree, places[:m], min(left, right), max(left, right), grain)
    order = np.empty(n_pieces, np.int64)
    filled = 2
    for p in range(n_pieces):
        inside = places[first[p]], places[stop[p] - 1]
        if inside[0] <= left <= inside[1]:
            order[0] = p
        elif inside[0] <= right <= inside[1]:
            order[1] = p
        else:
            other = 2 + int(uniform(key, ORDER + 2 * places[first[p]], move) * (filled - 1))
            order[filled], order[other] = order[other], p
            filled += 1
    members, ends, t = np.empty(m, np.int64), np.empty(n_pieces, np.int64), 0
    for p in range(n_pieces):
        for at in range(first[order[p]], stop[order[p]]):
            members[t] = tree.order[places[at]]
            t += 1
        ends[p] = t
    return members, ends


@kernel
def cut(tree: BisectionTree, places: IntArray, low: int, high: int, grain: int) -> tuple[IntArray, IntArray, int]:
    """Cut sorted places (m,) of leaves into branches of at most `grain` of them, none with both `low` and `high`.

    Returns where in `places` the pieces begin and end, and how many there are.
    """
    m, top, n_pieces = places.size, 1, 0
    first, stop, stack = np.empty(m, np.int64), np.empty(m, np.int64), np.empty((m, 3), np.int64)
    stack[0] = 0, m, 0
    while top > 0:
        top -= 1
        a, b, v = stack[top]
        if b - a > grain or (places[a] <= low and high <= places[b - 1]):
            v, middle = fork(tree, places, a, b, v)
            stack[top] = middle, b, tree.right[v]
            stack[top + 1] = a, middle, v + 1
            top += 2
        else:
            first[n_pieces], stop[n_pieces] = a, b
            n_pieces += 1
    return first, stop, n_pieces
