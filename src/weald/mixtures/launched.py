"""Split-merge moves of whole clusters that look at their rows once, in blocks, many moves at once.

A move has two anchor rows i, j. Let c be the union of their clusters; its other rows come in random order, in blocks.
With A = {i}, B = {j} at first, a row x of a block goes

    to B with probability 1 / (1 + exp -s(x)), else to A,     s(x) = log n_B/n_A + log p(x | B) - log p(x | A),

where p(x | A) follows what earlier blocks have brought to A. If i and j share a cluster, its split into A and B is
proposed, and q is the product of the probabilities of what was drawn. If not, the merger of their clusters is proposed,
and q is that of drawing them as they are. A split is accepted with probability min(1, r), a merger with min(1, 1/r),

    r = V_{n,k+1} (1 - sigma)_{n_A - 1} (1 - sigma)_{n_B - 1} m(A) m(B) / [V_{n,k} (1 - sigma)_{n_c - 1} m(c) q].

A coin says how p(x | .) begins. Launched: from two components that expectation-maximisation finds around the anchors in
some rows of c, which is how clusters that hold several are split. Felt: from the anchors alone, in blocks of half of
what went before, by the predictive of the family; q then learns what A and B are from the rows that it has seen in
them, which is how two clusters that share one place are merged. Coin, launch and order look at c but not at who is
where in c: they have one law in both directions, and r is exact. As q <= 1, r is never below its value at q = 1, and
most mergers of clusters that lie apart are refused unseen. There are three kinds of anchors, and r has the factor h:

    row      i any row, j the nearest to i of a few other rows or of many                                    h = 1
    cluster  i any row of any cluster, so that small ones have their turn, j as above        h = k n_c / ((k + 1) n_A)
    two      any two rows of any cluster, or any rows of any two clusters    h = n_c (n_c - 1) / ((k + 1) n_A n_B)

Moves count as made one after the other. A move whose clusters no earlier unfinished one touches has its proposal made
beside the others; only V depends on what they do, and enters when its turn comes to be judged.

Cost: about 2 |c| p for a move that is not refused at once, and 2 `STEPS` p for each of at most `LAUNCH_ROWS` rows.
References: S. Jain, R. Neal, JCGS 13 (2004); D. Dahl, Sequentially-allocated merge-split sampler (2005), of which felt
moves are a form in blocks; J. Chang, J. Fisher, NIPS (2013) for pairs of sub-clusters.

    >>> z, S, n_splits, n_merges = make_moves(rows, prior, z, S, 20, rng, Threads(1))       # doctest: +SKIP
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, gammaln

from weald._typing import FloatArray, IntArray, Matrix
from weald.assign import Rows
from weald.assign.base import MAX_TILE_ROWS, add_statistics
from weald.assign.exact import soft_statistics
from weald.engine import Threads, one_thread
from weald.families.base import AbstractFamily
from weald.mixtures.collapsed import log_new
from weald.partitions import AbstractPartition

LAUNCH_ROWS = 2048
STEPS = 5
HEAD = 4096  # rows whose blocks are small, or that follow a launch
MOST_OTHERS = 1024  # rows of which the second anchor is nearest to the first
KINDS = ("row", "cluster", "two")
PSEUDO = (0.0, 8.0)  # rows like the mean of c that A and B may begin with, which makes the first steps cautious

Shared = tuple[float, FloatArray]  # log q and statistics (2, p) of some rows


@dataclass(frozen=True, eq=False)
class Move:
    """Two anchors `pair`, found in the way of one of `KINDS`; a uniform number for the verdict, further randomness."""

    pair: IntArray
    kind: str
    verdict: float
    rng: np.random.Generator

    def log_h(self, k: int, S: FloatArray) -> float:
        """Log of how much likelier the anchors are when split than when merged into k clusters; S (2, p) of A and B."""
        n_a, n_b = S[:, -1]
        if self.kind == "row":
            return 0.0
        if self.kind == "cluster":
            return math.log(k * (n_a + n_b) / ((k + 1) * n_a))
        return math.log((n_a + n_b) * (n_a + n_b - 1.0) / ((k + 1) * n_a * n_b))


@dataclass(eq=False)
class Course:
    """A move under way.

    `order` (m,): rows of c but the anchors; `in_b` (m,): which are in B; `drawn`: a split; `uniforms` (m,) for the
    rows; S (2, p): statistics of A and B so far; `delta` (p,): weights of log odds in the next
    block; `at`: where it begins.
    """

    order: IntArray
    in_b: IntArray
    drawn: bool
    uniforms: FloatArray
    S: FloatArray
    delta: FloatArray
    log_q: float = 0.0
    at: int = 0

    @property
    def stop(self) -> int:
        """Where the next block ends."""
        return min(self.order.size, max(2 * self.at, HEAD))

    def share(self, T: Matrix, log_odds: FloatArray, tile: slice) -> Shared:
        """Rows order[tile], with statistics T and log odds: their log q and statistics (2, p)."""
        S = np.zeros((2, T.shape[1]))
        if self.drawn:
            self.in_b[tile] = self.uniforms[tile] < expit(log_odds)
        add_statistics(T, self.in_b[tile], None, S)
        return -float(np.logaddexp(0.0, np.where(self.in_b[tile], -log_odds, log_odds)).sum()), S

    def add(self, part: Shared) -> None:
        """What `share` has found."""
        self.log_q += part[0]
        self.S += part[1]

    def advance(self, at: int, family: AbstractFamily) -> None:
        """On to the block that begins there, which goes by what A and B are now."""
        self.at = at
        if at < self.order.size:
            self.delta = contrast(family.expected_eta(self.S), self.S)


@dataclass(eq=False)
class Table:
    """A partition while it moves: labels z (n,), statistics of each label, the number k of clusters, and tallies."""

    rows: Rows
    prior: AbstractPartition
    z: IntArray
    S: list[FloatArray]
    k: int
    n_splits: int = 0
    n_merges: int = 0
    _log_new: dict[int, float] = field(default_factory=dict)

    def play(self, n_moves: int, rng: np.random.Generator, engine: Threads) -> None:
        """A third of the moves of any row, then those whose anchors depend on the partition, one by one."""
        rngs = [np.random.Generator(np.random.Philox(key=int(key))) for key in rng.integers(2**63, size=n_moves)]
        waiting, ready = [self.move_of_row(r) for r in rngs[::3]], dict[Move, Course | None]()
        while waiting:
            ready |= propose(self, independent(self.z, waiting, ready), len(waiting), engine)
            while waiting and waiting[0] in ready:
                move = waiting.pop(0)
                self.judge(move, ready.pop(move))
        for r, find in [*((r, self.move_of_cluster) for r in rngs[1::3]), *((r, self.move_of_two) for r in rngs[2::3])]:
            found = find(r)
            if found is not None:
                self.judge(found, propose(self, [found], 0, engine)[found])

    def move_of_row(self, rng: np.random.Generator) -> Move:
        """Any row, and one near it."""
        i = int(rng.integers(self.z.size))
        return Move(np.array([i, self._near(i, rng)]), "row", rng.random(), rng)

    def move_of_cluster(self, rng: np.random.Generator) -> Move:
        """Any row of any cluster, and one near it."""
        i = self._member(rng.choice(self._used()), rng)
        return Move(np.array([i, self._near(i, rng)]), "cluster", rng.random(), rng)

    def move_of_two(self, rng: np.random.Generator) -> Move | None:
        """Any two rows of any cluster, or any rows of any two clusters; none where there are no two."""
        if rng.random() < 0.5:
            found = np.flatnonzero(self.z == rng.choice(self._used()))
            pair = rng.choice(found, 2, replace=False) if found.size > 1 else found
        else:
            clusters = rng.permutation(self._used())[:2]
            pair = np.array([self._member(c, rng) for c in clusters])
        return Move(pair, "two", rng.random(), rng) if pair.size == 2 else None

    def _used(self) -> list[int]:
        return [label for label, S in enumerate(self.S) if S[-1] > 0.5]

    def _member(self, label: int, rng: np.random.Generator) -> int:
        return int(rng.choice(np.flatnonzero(self.z == label)))

    def _near(self, i: int, rng: np.random.Generator) -> int:
        """The row nearest to row i of a few others, or of many: their number is log-uniform."""
        others = rng.integers(self.z.size - 1, size=int(MOST_OTHERS ** rng.random()))
        others += others >= i
        return int(others[nearest_to_last(self.rows.family.coordinates(self.rows.X[np.append(others, i)]))])

    def judge(self, move: Move, course: Course | None) -> None:
        """Accept a move or not; None was refused."""
        if course is None:
            return
        a, b = (int(c) for c in self.z[move.pair])
        log_r = self.log_r(move, course.S, self.k - (a != b), self.log_base(course.S)) - course.log_q
        if math.log(1.0 - move.verdict) >= (log_r if a == b else -log_r):
            return
        if a == b:
            self.z[course.order[course.in_b == 1]] = self.z[move.pair[1]] = len(self.S)
            self.S[a] = course.S[0]
            self.S.append(course.S[1])
            self.k, self.n_splits = self.k + 1, self.n_splits + 1
        else:
            self.z[course.order] = self.z[move.pair[1]] = a
            self.S[a], self.S[b] = course.S.sum(axis=0), np.zeros_like(self.S[b])
            self.k, self.n_merges = self.k - 1, self.n_merges + 1

    def hopeless(self, move: Move, n_before: int) -> bool:
        """Whether a merger will be refused whatever q is, and whatever up to `n_before` moves before it do."""
        a, b = self.z[move.pair]
        if a == b:
            return False
        S, bar = np.stack([self.S[a], self.S[b]]), -math.log(1.0 - move.verdict)
        log_base = self.log_base(S)
        near = range(max(1, self.k - 1 - n_before), self.k + n_before)
        return all(self.log_r(move, S, k, log_base) >= bar for k in near)

    def log_base(self, S: FloatArray) -> float:
        """Log of r q without the V and without the factor of the anchors, from S (2, p) of A and B."""
        S, sigma = np.vstack([S, S.sum(axis=0)]), self.prior.sigma
        log_p = gammaln(S[:, -1] - sigma) - gammaln(1.0 - sigma) + self.rows.family.log_marginal(S)
        return float(log_p[0] + log_p[1] - log_p[2])

    def log_r(self, move: Move, S: FloatArray, k: int, log_base: float) -> float:
        """Log r at q = 1, with k clusters when merged."""
        if k not in self._log_new:
            self._log_new[k] = log_new(self.prior, self.z.size, k)
        return self._log_new[k] + move.log_h(k, S) + log_base


def make_moves(
    rows: Rows,
    prior: AbstractPartition,
    z: IntArray,
    S: FloatArray,
    n_moves: int,
    rng: np.random.Generator,
    engine: Threads,
) -> tuple[IntArray, FloatArray, int, int]:
    """Moves one after the other, of the three kinds in turn.

    Parameters
    ----------
    rows : Rows
        The data, at least two rows.
    prior : AbstractPartition
        Prior of the partition, given its auxiliary variable where it has one.
    z : (n,) array of int32
        Labels; some may be in no use.
    S : (k, p) array
        Statistics of all labels.
    n_moves : int
        How many moves.
    rng : numpy Generator
    engine : Threads
        Where proposals are made.

    Returns
    -------
    z, S : (n,), (k', p) arrays
        Labels and statistics; new labels follow those that were there.
    n_splits, n_merges : int
        How many were accepted.
    """
    table = Table(rows, prior, z.copy(), list(S), int(np.count_nonzero(np.bincount(z))))
    with one_thread():
        table.play(n_moves, rng, engine)
    return table.z, np.array(table.S), table.n_splits, table.n_merges


def independent(z: IntArray, waiting: Sequence[Move], ready: Mapping[Move, Course | None]) -> list[Move]:
    """Waiting moves without a proposal that share no cluster with an earlier waiting one."""
    taken, found = set[int](), list[Move]()
    for move in waiting:
        clusters = {int(c) for c in z[move.pair]}
        if move not in ready and taken.isdisjoint(clusters):
            found.append(move)
        taken |= clusters
    return found


def propose(table: Table, moves: Sequence[Move], n_before: int, engine: Threads) -> dict[Move, Course | None]:
    """Proposals of moves that share no cluster: beginnings side by side, then tiles of blocks side by side."""
    rows, kept = table.rows, [move for move in moves if not table.hopeless(move, n_before)]
    if not kept:
        return dict.fromkeys(moves)
    members = members_of(table.z, table.z[np.stack([move.pair for move in kept])])
    courses = list(engine.map(lambda job: begin(table, members[job.start], kept[job.start]), ones(len(kept))))
    while left := [course for course in courses if course.at < course.order.size]:
        tiles = [
            (c, slice(t, min(t + MAX_TILE_ROWS, c.stop))) for c in left for t in range(c.at, c.stop, MAX_TILE_ROWS)
        ]

        def shared(job: slice, tiles: Sequence[tuple[Course, slice]] = tiles) -> Shared:
            course, tile = tiles[job.start]
            T = rows.family.sufficient(rows.X[course.order[tile]])
            found: Shared = course.share(T, np.asarray(T @ course.delta, np.float64), tile)
            return found

        for (course, _), part in zip(tiles, engine.map(shared, ones(len(tiles))), strict=True):
            course.add(part)
        for course in left:
            course.advance(course.stop, rows.family)
    return {**dict.fromkeys(moves), **dict(zip(kept, courses, strict=True))}


def ones(n: int) -> list[slice]:
    """Jobs 0, ..., n - 1, as shards of one."""
    return [slice(i, i + 1) for i in range(n)]


def members_of(z: IntArray, labels: IntArray) -> list[IntArray]:
    """Rows, in order, of the clusters labels (m, 2) of each move; clusters belong to one move each."""
    short = len(labels) < 2**15  # and sorts faster
    owner: IntArray = np.full(int(z.max()) + 1, -1, np.int16 if short else np.int64)
    owner[labels[:, 0]] = owner[labels[:, 1]] = np.arange(len(labels))
    of_row = owner[z]
    at = np.flatnonzero(of_row >= 0)
    at = at[np.argsort(of_row[at], kind="stable")]
    edges = np.append(0, np.cumsum(np.bincount(of_row[at], minlength=len(labels))))
    return [at[a:b] for a, b in pairwise(edges)]


def begin(table: Table, members: IntArray, move: Move) -> Course:
    """A move up to where its blocks are large."""
    rows, pair, rng = table.rows, move.pair, move.rng
    a, b = table.z[pair]
    order = rng.permutation(members[(members != pair[0]) & (members != pair[1])])
    S = np.zeros((2, rows.family.width))
    add_statistics(rows.family.sufficient(rows.X[pair]), np.arange(2, dtype=np.int32), None, S)
    in_b = (table.z[order] == b).astype(np.int32)
    course = Course(order, in_b, bool(a == b), rng.random(order.size), S, np.zeros(rows.family.width))
    if rng.random() < 0.5:
        course.delta = launch(rows, np.append(order[:LAUNCH_ROWS], pair))
    else:
        total = table.S[a] if a == b else table.S[a] + table.S[b]
        feel(rows, course, PSEUDO[rng.integers(len(PSEUDO))] * total / total[-1])
    return course


def launch(rows: Rows, seen: IntArray) -> FloatArray:
    """(p,): weights of log odds between two components of the rows `seen`, the last two of which are anchors."""
    X = rows.X[seen]
    T, in_b = rows.family.sufficient(X), nearer_last(rows.family.coordinates(X))
    R = np.empty((seen.size, 2), T.dtype)
    delta: FloatArray = np.empty(0)
    for _ in range(STEPS):
        R[:, 0], R[:, 1] = 1.0 - in_b, in_b
        R[-2:] = np.eye(2)
        S = soft_statistics(R, T)
        delta = contrast(rows.family.mode_eta(S), S)
        in_b = expit(T @ delta)
    return delta


def contrast(eta: FloatArray, S: FloatArray) -> FloatArray:
    """(p,): weights of log odds of the second component, from parameters and statistics (2, p)."""
    delta: FloatArray = eta[1] - eta[0]
    delta[-1] += math.log(S[1, -1] / S[0, -1])
    return delta


def nearest_to_last(C: Matrix) -> int:
    """(rows, c) -> which row is nearest to the last one."""
    last = C[-1:].toarray()[0] if sp.issparse(C) else C[-1]
    squares = C.multiply(C).sum(axis=1) if sp.issparse(C) else np.einsum("ij,ij->i", C, C)
    return int(np.argmin(np.asarray(squares)[:-1] - 2.0 * (C @ last)[:-1]))


def nearer_last(C: Matrix) -> FloatArray:
    """(rows, c) -> (rows,): 1 where the last row is nearer than the last but one, else 0."""
    anchors = C[-2:].toarray() if sp.issparse(C) else C[-2:]
    middle = 0.5 * float(anchors[1] @ anchors[1] - anchors[0] @ anchors[0])
    return np.asarray(C @ (anchors[1] - anchors[0]) > middle, np.float64)


def feel(rows: Rows, course: Course, pseudo: FloatArray) -> None:
    """The first `HEAD` rows, in blocks of half of what went before; A and B begin with statistics `pseudo` (p,)."""
    while course.at < min(HEAD, course.order.size):
        tile = slice(course.at, min(course.order.size, course.at + course.at // 2 + 1))
        T = rows.family.sufficient(rows.X[course.order[tile]])
        log_p = rows.family.log_predictive(course.S + pseudo, T)
        log_odds = log_p[:, 1] - log_p[:, 0] + math.log(course.S[1, -1] / course.S[0, -1])
        course.add(course.share(T, log_odds, tile))
        course.at = tile.stop
    course.advance(course.at, rows.family)
