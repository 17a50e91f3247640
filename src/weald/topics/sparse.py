"""Sparse sweeps: documents hold lists of their topics, and cost what these are long.

    p  propto  sum_j n_dj b_j over the topics of the document   +   sum_k alpha_k b_k over all

The first sum is made for each token. The second is kept in blocks of 32 topics, updated where a label changes, and
searched only where the draw falls there. What a word changes in it is undone on leaving the word, so that rare words
cost their tokens, not K; block sums are made anew every K tokens, lest rounding adds up. A list is unsorted: topic and
count in the halves of one integer, one cache line for most documents. 4 bytes for each token (8 where documents are
longer than 65,535 tokens). The loop is written out as in `weald.topics.dense`.
See `weald.topics.sweeps` for the law. Reference: Yao, Mimno, McCallum (2009).
"""

from __future__ import annotations

import numpy as np
from numba import int64, uint64

from weald._kernel import kernel
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
    sums = np.zeros(smooth.shape[0] // BLOCK)
    for k in range(K):
        b[k] = eta / (n_k[k] + Veta)
        smooth[k] = alpha[k] * b[k]
    rest, stale = 0.0, K + 1
    spare, changed, evals = tally[SPARE], tally[CHANGED], tally[EVALS]
    w = np.searchsorted(offsets, at, side="right") - 1
    while w < V:
        start, end = offsets[w], offsets[w + 1]
        for t in range(start, end):
            n_w[z[t]] += 1
        for t in range(start, end):
            k = z[t]
            b[k] = (n_w[k] + eta) / (n_k[k] + Veta)
            grown = alpha[k] * b[k] - smooth[k]
            smooth[k] += grown
            sums[k // BLOCK] += grown
            rest += grown
        stale += end - start
        if stale > K:
            rest, stale = 0.0, 0
            for c in range(sums.shape[0]):
                inner = 0.0
                for i in range(BLOCK):
                    inner += smooth[c * BLOCK + i]
                sums[c] = inner
                rest += inner
        for t in range(max(start, at), end):
            if spare == K - 1:
                tally[:] = spare, changed, evals
                return t
            d, old = docs[t], int64(z[t])
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
                x -= listed
                c, last = 0, sums.shape[0] - 1
                while c < last:
                    inner = sums[c] + (less if c == old // BLOCK else 0.0)
                    if x < inner:
                        break
                    x -= inner
                    c += 1
                new, last = c * BLOCK, min((c + 1) * BLOCK, K) - 1
                while new < last:
                    x -= smooth[new] + (less if new == old else 0.0)
                    if x < 0.0:
                        break
                    new += 1
                new = new if smooth[new] > 0.0 else old  # rounding may end the search beyond the last weight
            if new != old:
                n_w[old] -= 1
                n_w[new] += 1
                n_k[old] -= 1
                n_k[new] += 1
                z[t] = new
                changed += 1
                at_old, at_new = int64(-1), int64(-1)
                for j in range(f, f + m):
                    k = int64(uint64(pairs[j]) >> shift)
                    at_old = j if k == old else at_old
                    at_new = j if k == new else at_new
                alone = (uint64(pairs[at_old]) & low) == uint64(1)
                if at_new < 0:
                    pairs[at_old] -= 1
                    at_new = at_old if alone else f + m
                    size[d] = m + (0 if alone else 1)
                    pairs[at_new] = (uint64(new) << shift) + uint64(1)
                else:
                    pairs[at_new] += 1
                    pairs[at_old] -= 1
                    if alone:
                        pairs[at_old] = pairs[f + m - 1]
                        size[d] = m - 1
                if new == spare:
                    break_stick(alpha, new, hashed(key, t + z.shape[0]), gamma)
                    spare += 1
                    grown = alpha[spare] * b[spare] - smooth[spare]
                    smooth[spare] += grown
                    sums[spare // BLOCK] += grown
                    rest += grown
                for k in (old, new):
                    b[k] = (n_w[k] + eta) / (n_k[k] + Veta)
                    grown = alpha[k] * b[k] - smooth[k]
                    smooth[k] += grown
                    sums[k // BLOCK] += grown
                    rest += grown
        for t in range(start, end):
            k = z[t]
            word_reached[n_w[k]] += 1
            n_w[k] -= 1
            b[k] = eta / (n_k[k] + Veta)
            grown = alpha[k] * b[k] - smooth[k]
            smooth[k] += grown
            sums[k // BLOCK] += grown
            rest += grown
        stale += end - start
        w += 1
    tally[:] = spare, changed, evals
    return int(docs.shape[0])


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
