"""Metropolis-Hastings sweeps with alias tables: a token costs the same whatever K is and however many topics it meets.

A token of word w in document d, at topic s, asks by turns whether to go to topic t (without its own count throughout)

    word        t ~ q_k  propto  c_wk / (n'_k + V eta) + eta r alpha_k,   accepted with  pi_t q_s / (pi_s q_t)
    document    t ~ n_dk + alpha_k: the topic of a random token of d,     accepted with  b_t / b_s
                or one drawn from alpha,

where pi_k = (n_dk + alpha_k) b_k, b_k = (n_wk + eta) / (n_k + V eta). The second ratio is that simple because the token
itself is among those it may pick. Published samplers draw from tables that are somewhat stale, made from labels that
they then move, among them the token's own; their law is approximate. Here the tokens of a word are cut into four
groups, and c_wk and n'_k of a group leave all of its tokens out: given the other labels they are constants, the
correction is that of an independence sampler, and the posterior stays exactly invariant. r is constant.

Four tables over the topics that a word has are made each time a word is met (`weald.trees.alias`), one over alpha in
each sweep. Documents keep their labels, to pick one, and their counts in a hash table of linear probing, which is an
array where K is small. Cost: `STEPS` times two proposals. Memory: 2 + 4 bytes times at most 4 for each token.
See `weald.topics.sweeps` for the law. References: Li, Ahmed, Ravi, Smola (2014); Yuan et al. (2015), LightLDA, whose
proposals these are; journal (003) (117).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, int64, uint64

from weald._kernel import inline, kernel
from weald._typing import FloatArray, IntArray
from weald.topics.chance import hashed
from weald.topics.dense import CHANGED, EVALS
from weald.trees.alias import build_rows

GROUPS = 4  # of the tokens of a word
STEPS = 2  # turns of both proposals


@kernel
def alias(
    offsets: IntArray, docs: IntArray, z: IntArray, first: IntArray, labels: IntArray, places: IntArray,
    cells: IntArray, n_k: IntArray, alpha: FloatArray, eta: float, key: np.uint64, tally: IntArray,
    word_reached: IntArray,
) -> None:  # fmt: skip
    """Move every token.

    z (N,), n_k (K,), tally (3,), word_reached IN/OUT; labels (N,): those of document d from first[d] on, its hash table
    from places[d] to places[d + 1] in cells: IN/OUT.
    """
    V, K, N = offsets.shape[0] - 1, alpha.shape[0], docs.shape[0]
    Veta, A, shift = V * eta, alpha.sum(), uint64(cells.itemsize * 4)
    low = (uint64(1) << shift) - uint64(1)
    n_w, visited = np.zeros(K, np.int64), np.zeros(first.shape[0], np.int64)
    b, others, there = np.empty(K), np.zeros(K), np.empty(K, np.int64)
    weights, threshold, other = np.empty((1, K)), np.empty((1, K)), np.empty((1, K), np.int64)
    prior, prior_other = np.empty((1, K)), np.empty((1, K), np.int64)
    build_rows(alpha.reshape(1, K), prior, prior_other)
    shared = eta * K / (N / K + Veta) / A  # r, times eta
    b[:] = eta / (n_k + Veta)
    changed = 0
    for w in range(V):
        start, end = offsets[w], offsets[w + 1]
        n_groups = min(GROUPS, end - start)
        for t in range(start, end):
            n_w[z[t]] += 1
        for t in range(start, end):
            b[z[t]] = (n_w[z[t]] + eta) / (n_k[z[t]] + Veta)
        for group in range(n_groups):
            begin, stop = start + (end - start) * group // n_groups, start + (end - start) * (group + 1) // n_groups
            m, mass = gather(z, start, end, begin, stop, n_w, n_k, Veta, weights, there, others)
            if m > 0:
                build_rows(weights[:, :m], threshold[:, :m], other[:, :m])
            for t in range(begin, stop):
                d, old = docs[t], int64(z[t])
                f, own_place = first[d], visited[d]
                visited[d] += 1
                n_d, at, last = first[d + 1] - f, places[d], places[d + 1] - places[d] - 1
                own = (n_w[old] - 1 + eta) / (n_k[old] - 1 + Veta)
                s, b_s, d_s = int64(-1), 0.0, 0.0
                new, by_word = old, True  # the topic itself is the first to be accepted
                for turn in range(2 * STEPS + 1):
                    if turn > 0:
                        by_word = turn % 2 == 1
                        x = hashed(key, t * 4 * STEPS + 2 * turn - 2)
                        x *= mass + shared * A if by_word else n_d + A
                        given = mass if by_word else float64(n_d)
                        if x >= given:
                            x = (x - given) * K / (shared * A if by_word else A)
                            j = min(int64(x), K - 1)
                            new = j if x - j < prior[0, j] else prior_other[0, j]
                        elif by_word:
                            x *= m / mass
                            j = min(int64(x), m - 1)
                            new = there[j if x - j < threshold[0, j] else other[0, j]]
                        else:
                            new = s if int64(x) == own_place else int64(labels[f + int64(x)])
                        if new == s:
                            continue
                    i = new & last
                    while cells[at + i] != 0 and int64(uint64(cells[at + i]) >> shift) != new:
                        i = (i + 1) & last
                    d_t = float64(uint64(cells[at + i]) & low) - (1.0 if new == old else 0.0) + alpha[new]
                    b_t = own if new == old else b[new]
                    gain, loss = b_t, b_s
                    if by_word:
                        gain *= d_t * (others[s] + shared * alpha[s])
                        loss *= d_s * (others[new] + shared * alpha[new])
                    if turn == 0 or hashed(key, t * 4 * STEPS + 2 * turn - 1) * loss < gain:
                        s, b_s, d_s = new, b_t, d_t
                if s != old:
                    changed += 1
                    z[t], labels[f + own_place] = s, s
                    take(cells, at, last, old)
                    put(cells, at, last, s)
                    n_w[old] -= 1
                    n_w[s] += 1
                    n_k[old] -= 1
                    n_k[s] += 1
                    b[old] = own
                    b[s] = (n_w[s] + eta) / (n_k[s] + Veta)
            for j in range(m):
                others[there[j]] = 0.0
        for t in range(start, end):
            k = z[t]
            word_reached[n_w[k]] += 1
            n_w[k] -= 1
            b[k] = eta / (n_k[k] + Veta)
    tally[CHANGED], tally[EVALS] = changed, 2 * STEPS * N


@inline
def gather(
    z: Any, start: Any, end: Any, begin: Any, stop: Any, n_w: Any, n_k: Any, Veta: Any, weights: Any, there: Any,
    others: Any,
) -> Any:  # fmt: skip
    """Weights of the topics that the tokens start, ..., end - 1 of a word have outside begin, ..., stop - 1.

    Fills weights and there (m) and others (K); returns m and the sum of the weights. n_w, n_k IN/OUT, as they were.
    """
    for t in range(begin, stop):
        n_w[z[t]] -= 1
        n_k[z[t]] -= 1
    m, mass = 0, 0.0
    for t in range(start, end):
        k = z[t]
        if n_w[k] > 0 and others[k] == 0.0:
            others[k] = n_w[k] / (n_k[k] + Veta)
            weights[0, m], there[m] = others[k], k
            mass += others[k]
            m += 1
    for t in range(begin, stop):
        n_w[z[t]] += 1
        n_k[z[t]] += 1
    return m, mass


@kernel
def put(cells: IntArray, at: int, last: int, k: int) -> None:
    """Add a token of topic k to the table of cells at, ..., at + last."""
    shift, i = uint64(cells.itemsize * 4), k & last
    while cells[at + i] != 0 and int64(uint64(cells[at + i]) >> shift) != k:
        i = (i + 1) & last
    cells[at + i] = uint64(1) + (uint64(cells[at + i]) if cells[at + i] != 0 else uint64(k) << shift)


@kernel
def take(cells: IntArray, at: int, last: int, k: int) -> None:
    """Remove a token of topic k; where it was the last one, cells behind that were displaced move up."""
    shift, i = uint64(cells.itemsize * 4), k & last
    while int64(uint64(cells[at + i]) >> shift) != k or cells[at + i] == 0:
        i = (i + 1) & last
    cells[at + i] -= 1
    if uint64(cells[at + i]) != uint64(k) << shift:
        return
    cells[at + i] = 0
    j = (i + 1) & last
    while cells[at + j] != 0:
        home = int64(uint64(cells[at + j]) >> shift) & last
        if (j - home) & last >= (j - i) & last:
            cells[at + i], cells[at + j] = cells[at + j], 0
            i = j
        j = (j + 1) & last


@kernel
def fill_tables(
    docs: IntArray, z: IntArray, first: IntArray, labels: IntArray, places: IntArray, cells: IntArray
) -> None:
    """Labels of the documents and their hash tables, OUT; cells are 0 before."""
    seen = np.zeros(first.shape[0], np.int64)
    for t in range(docs.shape[0]):
        d = docs[t]
        labels[first[d] + seen[d]] = z[t]
        seen[d] += 1
        put(cells, places[d], places[d + 1] - places[d] - 1, int64(z[t]))


@kernel
def lists_of(first: IntArray, places: IntArray, cells: IntArray, pairs: IntArray, size: IntArray) -> None:
    """The counts in hash tables as lists, pairs[first[d]] and on, size (D,): OUT."""
    for d in range(size.shape[0]):
        m = 0
        for i in range(places[d], places[d + 1]):
            if cells[i] != 0:
                pairs[first[d] + m] = cells[i]
                m += 1
        size[d] = m
