"""Exact draws from a law over the nodes of a tree, by rejection from an envelope that learns from its failures.

Target t(z) = m_z f_z over the nodes z of an explicit tree: an additive measure m, and a likelihood f that is bounded
on subtrees. Node v knows two things about the nodes *below* it (itself left out):

    M(v) = sum of their m_z,        U(v) >= max of their f_z for the row at hand.

An envelope is a set of entries that together cover every node once: atoms z with weight m_z f_z, and open nodes v,
which stand for all that is below v, with weight min(U(v), U of the ancestors) M(v). One trial:

    pick an entry in proportion to its weight;
    atom z:  return z
    open v:  u uniform on (0, weight of v); replace v by its children, each an atom and (unless a leaf) an open node;
             u falls on one of these, and the trial goes on there, or beyond them all, and the trial fails.

Children never weigh more than their parent did (U bounds their f, M adds up), so the last probability is not negative;
the factors along a path telescope: a trial returns z with probability m_z f_z / gamma, gamma the weight of all
entries, for every z alike. So nodes may be opened between trials at will, as long as the uniforms of later trials play
no part: those a failed trial visited stay open (refine-on-reject), and before the first trial the heaviest open node is
opened until none weighs more than `patience` allows beside the best atom. Starting afresh from the envelope before the
trial has come to its end would favour nodes near the root.

Likelihoods come in three forms, each with a bound on a box of the parameters below v (and a ball for the last):

    diagonal  log f = -1/2 sum_j p_j (y_j - c_j)^2;    y to the box, squared, with the least p_j below
    matrix    log f = -1/2 |R (y - c)|^2, R triangular; the same with the least eigenvalue of R'R
    linear    log f = <y, c>;                           the corner of the box, or <y, c> + |y| radius (Cauchy-Schwarz)

Cost: one evaluation for each child of an opened node. In few dimensions these are a small share of all; beyond about
8 dimensions bounds say little and most nodes are opened. Entries 37 nats below the best atom cannot matter in float64
and are left out. Documents 000/001, B.1 and B.2, corrected; specification 1.5.

    >>> flat_draws(np.log([0.5, 0.2]), np.log([0.4, 0.3]), np.log([0.5, 0.5]), np.random.default_rng(0), 5)
    array([1, 0, 0, 0, 0], dtype=int32)
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from weald._kernel import ordered
from weald._random import uniform
from weald._typing import Array, FloatArray, IntArray
from weald.trees.alias import AliasTable

CUT = 37.0


class Forms(NamedTuple):
    """A tree of likelihoods, by slot: the root is 0, children stand side by side, parents before them.

    P is 1 (one precision for all coordinates) or q, and 0 for the linear form; R is q(q + 1)/2 for the matrix form,
    else 0.
    """

    number: IntArray  # (n,) what a draw of the slot returns
    first: IntArray  # (n,) first child
    last: IntArray  # (n,) one past the last child; `first` for a leaf
    log_m: FloatArray  # (n,) own measure
    log_below: FloatArray  # (n,) measure of all that is below
    centre: FloatArray  # (n, q)
    low: FloatArray  # (n, q) the box of the centres below
    high: FloatArray  # (n, q)
    precision: FloatArray  # (n, P)
    floor: FloatArray  # (n, P) least precision below
    root: FloatArray  # (n, R) rows of the upper triangle
    radius: FloatArray  # (n,) largest distance to a centre below


class Shape(NamedTuple):
    """Of a table of forms: coordinates q, precisions P, entries R of a root."""

    q: int
    P: int
    R: int


def table_of(forms: Forms) -> tuple[Shape, IntArray, FloatArray]:
    """Forms for compiled code: children (n + 1, 2), the last those of `above the root`; a row of numbers for each slot.

    Columns: log_m, log_below, radius, centre, low, high, precision, floor, root; 3 + 3q + 2P + R in all.
    """
    scalars = np.column_stack([forms.log_m, forms.log_below, forms.radius])
    table = np.hstack([scalars, *forms[5:11]])
    shape = Shape(forms.centre.shape[1], forms.precision.shape[1], forms.root.shape[1])
    children = np.vstack([np.column_stack([forms.first, forms.last]), [[0, 1]]])
    return shape, children, np.ascontiguousarray(table)


@ordered
def evaluate(shape: Shape, table: FloatArray, Y: FloatArray, i: int, a: int, b: int, out: FloatArray) -> None:
    """For row i of Y (rows, q), log f of the slots a:b into out[0], and log U of what is below them into out[1]."""
    if shape.P == 0:
        linear(shape, table, Y, i, a, b, out)
    elif shape.R > 0:
        quadratic(shape, table, Y, i, a, b, out)
        matrix(shape, table, Y, i, a, b, out)
    else:
        quadratic(shape, table, Y, i, a, b, out)


@ordered
def quadratic(shape: Shape, table: FloatArray, Y: FloatArray, i: int, a: int, b: int, out: FloatArray) -> None:
    """The diagonal form; its bound serves the matrix form too."""
    q, P = shape.q, shape.P
    low, high, precision, floor = 3 + q, 3 + 2 * q, 3 + 3 * q, 3 + 3 * q + P
    for s in range(a, b):
        total = ceiling = 0.0
        for j in range(q):
            y = Y[i, j]
            step = y - table[s, 3 + j]
            short, far = table[s, low + j] - y, y - table[s, high + j]
            gap = short if short > far else far
            gap = gap if gap > 0.0 else 0.0
            if P == 1:
                total += step * step
                ceiling += gap * gap
            else:
                total += table[s, precision + j] * step * step
                ceiling += table[s, floor + j] * gap * gap
        out[0, s] = -0.5 * total * (table[s, precision] if P == 1 else 1.0)
        out[1, s] = -0.5 * ceiling * (table[s, floor] if P == 1 else 1.0)


@ordered
def matrix(shape: Shape, table: FloatArray, Y: FloatArray, i: int, a: int, b: int, out: FloatArray) -> None:
    """Log f of the matrix form."""
    for s in range(a, b):
        k = 3 + 3 * shape.q + 2 * shape.P
        total = 0.0
        for row in range(shape.q):
            part = 0.0
            for j in range(row, shape.q):
                part += table[s, k] * (Y[i, j] - table[s, 3 + j])
                k += 1
            total += part * part
        out[0, s] = -0.5 * total


@ordered
def linear(shape: Shape, table: FloatArray, Y: FloatArray, i: int, a: int, b: int, out: FloatArray) -> None:
    """The linear form."""
    q, square = shape.q, 0.0
    for j in range(q):
        square += Y[i, j] * Y[i, j]
    length = math.sqrt(square)
    for s in range(a, b):
        total = corner = 0.0
        for j in range(q):
            total += Y[i, j] * table[s, 3 + j]
            corner += max(Y[i, j] * table[s, 3 + q + j], Y[i, j] * table[s, 3 + 2 * q + j])
        out[0, s] = total
        out[1, s] = min(corner, total + length * table[s, 2])


@ordered
def pick(weight: FloatArray, n_atoms: int, n_open: int, top: float, u: float) -> Any:
    """An entry in proportion to its weight: (place, True) for an atom, (place, False) for an open node."""
    total = opened = 0.0
    for e in range(n_atoms):
        weight[3, e] = math.exp(weight[0, e] - top)
        total += weight[3, e]
    for e in range(n_open):
        opened += math.exp(weight[1, e] - top)
    u *= total + opened
    last = 0
    for e in range(n_atoms):
        if weight[3, e] > 0.0:
            last = e
            if u < weight[3, e]:
                return e, True
            u -= weight[3, e]
    place, u = fall(weight, 1, 0, n_open, top, u)
    if place < n_open:
        return place, False
    return last, True  # rounding left u beyond the end


@ordered
def fall(weight: FloatArray, kind: int, a: int, b: int, unit: float, u: float) -> Any:
    """The entry of a:b on which u falls, weights counted in units of exp(unit), or b; and what is left of u."""
    for e in range(a, b):
        mass = math.exp(weight[kind, e] - unit)
        if u < mass:
            return e, u
        u -= mass
    return b, u


@ordered
def draw_row(
    shape: Shape, children: IntArray, table: FloatArray, Y: FloatArray, i: int, key: np.uint64, row: int,
    patience: float, node: IntArray, weight: FloatArray, out: FloatArray,
) -> Any:  # fmt: skip
    """Draw a slot for row i of Y: the slot, how many nodes were evaluated, how many trials it took.

    Room for the envelope: node (2, n), slots of atoms and of open nodes; weight (4, n), log weights of atoms, of open
    nodes, bounds of open nodes, and weights of atoms. In one piece, since a call costs as much as several evaluations.
    """
    n_evals, n_trials, stream = 0, 0, 1
    n_atoms, n_open, best = 0, 1, -math.inf
    node[1, 0], weight[1, 0], weight[2, 0] = len(table), math.inf, math.inf  # above the root
    place, between = 0, True
    while True:
        if between:
            kept, heavy = 0, -math.inf
            for e in range(n_open):
                if weight[1, e] > best - CUT:
                    node[1, kept], weight[1, kept], weight[2, kept] = node[1, e], weight[1, e], weight[2, e]
                    if weight[1, kept] > heavy:
                        place, heavy = kept, weight[1, kept]
                    kept += 1
            n_open = kept
            if n_atoms + n_open == 0:
                return 0, n_evals, n_trials  # a row that no node can have made
            if n_trials > 0 or not heavy > best + patience:
                place, found = pick(weight, n_atoms, n_open, max(best, heavy), uniform(key, row, stream))
                n_trials, stream, between = n_trials + 1, stream + 1, False
                if found:
                    return node[0, place], n_evals, n_trials
        v, unit, bound = node[1, place], weight[1, place], weight[2, place]
        n_open -= 1
        node[1, place], weight[1, place], weight[2, place] = node[1, n_open], weight[1, n_open], weight[2, n_open]
        a, b, old_atoms, old_open = children[v, 0], children[v, 1], n_atoms, n_open
        evaluate(shape, table, Y, i, a, b, out)
        n_evals += b - a
        for s in range(a, b):
            log_t = out[0, s] + table[s, 0]
            if log_t > best - CUT:
                node[0, n_atoms], weight[0, n_atoms] = s, log_t
                n_atoms += 1
                best = max(best, log_t)
            if children[s, 0] < children[s, 1]:
                log_u = min(bound, out[1, s])
                if log_u + table[s, 1] > best - CUT:
                    node[1, n_open], weight[1, n_open], weight[2, n_open] = s, log_u + table[s, 1], log_u
                    n_open += 1
        if not between:
            place, u = fall(weight, 0, old_atoms, n_atoms, unit, uniform(key, row, stream))
            if place < n_atoms:
                return node[0, place], n_evals, n_trials
            place, u = fall(weight, 1, old_open, n_open, unit, u)
            stream, between = stream + 1, place == n_open


@ordered
def draw(
    shape: Shape, children: IntArray, table: FloatArray, Y: FloatArray, key: np.uint64, first: int, skip: int,
    turn: int, patience: float, z: IntArray,
) -> Any:  # fmt: skip
    """Draw a slot for each row of Y; rows skip, skip + turn, ... are left alone.

    Parameters
    ----------
    shape, children, table
        The tree, from `table_of`.
    Y : (rows, q) array
        Rows as the likelihoods take them.
    key, first : int
        Uniforms are keyed by `key` and the row number, which is `first` for the first row.
    skip, turn : int
        Which rows to leave alone.
    patience : float
        Log of the weight that an open node may have beside the best atom when the first trial begins; 1e300 starts
        with the root alone.
    z : (rows,) int array, out
        Slots drawn.

    Returns
    -------
    tuple of int
        Evaluations and trials.
    """
    n = len(table)
    node, weight, out = np.empty((2, n + 1), np.int64), np.empty((4, n + 1)), np.empty((2, n))
    n_evals = n_trials = 0
    for i in range(Y.shape[0]):
        if i % turn != skip:
            z[i], evals, trials = draw_row(
                shape, children, table, Y, i, key, first + i, patience, node, weight, out
            )  # fmt: skip
            n_evals += evals
            n_trials += trials
    return n_evals, n_trials


def flat_draws(log_f: Array, log_q: Array, log_w: Array, rng: np.random.Generator, n: int) -> IntArray:
    """Draws from w_z f_z / sum by rejection from w_z q_z, the clusters in no tree; a reference (B.1).

    With exp(-eps) f <= q <= exp(eps) f (13), z ~ w q (14) accepted with probability exp(-eps) f_z / q_z has the law
    w f (15), after exp(2 eps) trials at most on average. Only the left half of (13) is needed for that.

    Parameters
    ----------
    log_f, log_q, log_w : (K,) arrays
        Log likelihoods of a row, of its surrogate, and log weights.
    rng : Generator
        Randomness.
    n : int
        How many draws.

    Returns
    -------
    (n,) int32 array
    """
    log_p = log_w + log_q
    table = AliasTable(np.exp(log_p - log_p.max()))
    gap = log_f - log_q
    accept = np.exp(gap - gap.max())
    out, todo = np.empty(n, np.int32), np.arange(n)
    while todo.size:
        z = table.draw(rng, todo.size)
        done = rng.random(todo.size) < accept[z]
        out[todo[done]] = z[done]
        todo = todo[~done]
    return out
