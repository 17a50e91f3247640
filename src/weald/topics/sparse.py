"""Sparse sweeps: documents hold lists of their topics, and cost what these are long.

    p  propto  sum_j n_dj b_j over the topics of the document   +   sum_k alpha_k b_k over all

The first sum is made for each token. The second is kept in blocks of 32 topics, updated where a label changes, and
searched only where the draw falls there. What a word changes in it is undone on leaving the word, so that rare words
cost their tokens, not K. A list is unsorted: topic and count in the halves of one integer, one cache line for most
documents. 4 bytes for each token (8 where documents are longer than 65,535 tokens).
See `weald.topics.sweeps` for the law. Reference: Yao, Mimno, McCallum (2009).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, uint64

from weald._kernel import inline, kernel
from weald._typing import FloatArray, IntArray
from weald.topics.chance import break_stick, hashed
from weald.topics.dense import CHANGED, EVALS, SPARE

BLOCK = 32  # topics of which the smoothing part keeps the sum


@kernel
def sparse(
    offsets: IntArray, docs: IntArray, z: IntArray, at: int, first: IntArray, pairs: IntArray, size: IntArray,
    n_k: IntArray, alpha: FloatArray, eta: float, key: np.uint64, gamma: float, tally: IntArray,
    word_reached: IntArray,
) -> int:  # fmt: skip
    """As `dense`; pairs (N,), size (D,): lists of the documents' topics, IN/OUT."""
    V, K = offsets.shape[0] - 1, alpha.shape[0]
    Veta = V * eta
    shift = uint64(pairs.itemsize * 4)
    low = (uint64(1) << shift) - uint64(1)
    n_w = np.zeros(K, np.int64)
    b, p, smooth = np.empty(K), np.empty(K), np.zeros(-(-K // BLOCK) * BLOCK)
    sums = np.empty(smooth.shape[0] // BLOCK)
    for k in range(K):
        b[k] = eta / (n_k[k] + Veta)
        smooth[k] = alpha[k] * b[k]
    spare, changed, evals = tally[SPARE], tally[CHANGED], tally[EVALS]
    w = np.searchsorted(offsets, at, side="right") - 1
    while w < V:
        start, end = offsets[w], offsets[w + 1]
        for t in range(start, end):
            n_w[z[t]] += 1
        for t in range(start, end):
            k = z[t]
            b[k] = (n_w[k] + eta) / (n_k[k] + Veta)
            smooth[k] = alpha[k] * b[k]
        rest = sum_blocks(smooth, sums)
        for t in range(max(start, at), end):
            if spare == K - 1:
                tally[:] = spare, changed, evals
                return t
            d, old = docs[t], z[t]
            f, m = first[d], size[d]
            own = (n_w[old] - 1 + eta) / (n_k[old] - 1 + Veta)
            whole = b[old]
            b[old] = own
            listed = -own
            for j in range(m):
                pair = uint64(pairs[f + j])
                p[j] = (pair & low) * b[pair >> shift]
                listed += p[j]
            b[old] = whole
            evals += m
            less = alpha[old] * (own - whole)
            x = hashed(key, t) * (listed + rest + less)
            if x < listed:
                place = -1
                while x >= 0.0 and place < m - 1:
                    place += 1
                    new = int64(uint64(pairs[f + place]) >> shift)
                    x -= p[place] - (own if new == old else 0.0)
            else:
                new = search_blocks(smooth, sums, x - listed, old, less, K)
                new = new if smooth[new] > 0.0 else old  # rounding may end the search beyond the last weight
            if new != old:
                n_w[old] -= 1
                n_w[new] += 1
                n_k[old] -= 1
                n_k[new] += 1
                z[t] = new
                changed += 1
                size[d] = m + move(pairs, f, m, uint64(old), uint64(new), shift)
                if new == spare:
                    break_stick(alpha, new, hashed(key, t + z.shape[0]), gamma)
                    spare += 1
                    rest += weigh(spare, 0, eta, n_k, Veta, alpha, b, smooth, sums)
                rest += weigh(old, n_w[old], eta, n_k, Veta, alpha, b, smooth, sums)
                rest += weigh(new, n_w[new], eta, n_k, Veta, alpha, b, smooth, sums)
        for t in range(start, end):
            k = z[t]
            word_reached[n_w[k]] += 1
            n_w[k] -= 1
            b[k] = eta / (n_k[k] + Veta)
            smooth[k] = alpha[k] * b[k]
        w += 1
    tally[:] = spare, changed, evals
    return int(docs.shape[0])


@inline
def sum_blocks(smooth: Any, sums: Any) -> Any:
    """Sums of the blocks OUT; returns their sum."""
    total = 0.0
    for c in range(sums.shape[0]):
        inner = 0.0
        for j in range(c * BLOCK, (c + 1) * BLOCK):
            inner += smooth[j]
        sums[c] = inner
        total += inner
    return total


@inline
def weigh(k: Any, n: Any, eta: Any, n_k: Any, Veta: Any, alpha: Any, b: Any, smooth: Any, sums: Any) -> Any:
    """Make the weights of topic k anew, where the word has n tokens; returns by how much their sum has grown."""
    b[k] = (n + eta) / (n_k[k] + Veta)
    grown = alpha[k] * b[k] - smooth[k]
    smooth[k] += grown
    sums[k // BLOCK] += grown
    return grown


@kernel
def search_blocks(smooth: FloatArray, sums: FloatArray, x: float, old: int, less: float, K: int) -> int:
    """The topic at which the running sum of smooth, to which old adds less, exceeds x."""
    c, last = 0, sums.shape[0] - 1
    while c < last:
        inner = sums[c] + (less if c == old // BLOCK else 0.0)
        if x < inner:
            break
        x -= inner
        c += 1
    k, last = c * BLOCK, min((c + 1) * BLOCK, K) - 1
    while k < last:
        x -= smooth[k] + (less if k == old else 0.0)
        if x < 0.0:
            break
        k += 1
    return k


@inline
def move(pairs: Any, f: Any, m: Any, old: Any, new: Any, shift: Any) -> Any:
    """Take one token from topic old to topic new in the list of m pairs at f; returns by how much the list grows."""
    at, to = int64(-1), int64(-1)
    for j in range(f, f + m):
        k = uint64(pairs[j]) >> shift
        at = j if k == old else at
        to = j if k == new else to
    fresh, alone = to < 0, uint64(pairs[at]) == (old << shift) + uint64(1)
    if fresh and alone:
        pairs[at] = (new << shift) + uint64(1)
        return 0
    if fresh:
        pairs[at] -= 1
        pairs[f + m] = (new << shift) + uint64(1)
        return 1
    pairs[to] += 1
    pairs[at] -= 1
    if alone:
        pairs[at] = pairs[f + m - 1]
        return -1
    return 0


@kernel
def count_sparse(docs: IntArray, z: IntArray, first: IntArray, pairs: IntArray, size: IntArray, n: IntArray) -> None:
    """Write the lists of the documents: labels first, then those that are equal made into one; n (K,) is scratch."""
    shift = uint64(pairs.itemsize * 4)
    for t in range(docs.shape[0]):
        d = docs[t]
        pairs[first[d] + size[d]] = z[t]
        size[d] += 1
    for d in range(size.shape[0]):
        f, m = first[d], 0
        for j in range(f, f + size[d]):
            k = int64(pairs[j])
            if n[k] == 0:
                pairs[f + m] = k
                m += 1
            n[k] += 1
        for j in range(f, f + m):
            k = int64(pairs[j])
            pairs[j] = (uint64(k) << shift) + uint64(n[k])
            n[k] = 0
        size[d] = m


@kernel
def most_sparse(first: IntArray, pairs: IntArray, size: IntArray, most: IntArray) -> None:
    """The largest count of each topic in any document, OUT."""
    shift = uint64(pairs.itemsize * 4)
    low = (uint64(1) << shift) - uint64(1)
    for d in range(size.shape[0]):
        for j in range(first[d], first[d] + size[d]):
            k = uint64(pairs[j]) >> shift
            most[k] = max(most[k], int64(uint64(pairs[j]) & low))


@kernel
def reach_sparse(first: IntArray, pairs: IntArray, size: IntArray, starts: IntArray, reached: IntArray) -> None:
    """Add to reached[starts[k] + i] the documents with more than i tokens of topic k."""
    shift = uint64(pairs.itemsize * 4)
    low = (uint64(1) << shift) - uint64(1)
    for d in range(size.shape[0]):
        for j in range(first[d], first[d] + size[d]):
            k = uint64(pairs[j]) >> shift
            for i in range(int64(uint64(pairs[j]) & low)):
                reached[starts[k] + i] += 1
