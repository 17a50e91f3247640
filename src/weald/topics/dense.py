"""Dense sweeps: documents hold the count of every topic.

The weights of a token, (n_dk + alpha_k) b_k for all k, are made in chunks of 8 topics (vectors of float32), whose sums
are searched before their topics. The token's own count is taken off the one weight that it touches, so that nothing is
written where a label stays. K operations for each token, vectorised; 4 K bytes for each document. The loop is written
out, for an array that is handed to a function is counted by reference, which costs more than the function.
See `weald.topics.sweeps` for the law.
"""

from __future__ import annotations

import numpy as np
from numba import float32

from weald._kernel import kernel
from weald._typing import FloatArray, IntArray
from weald.topics.chance import break_stick, hashed

CHUNK = 8  # topics of which a search takes the sum first
SPARE, CHANGED, EVALS = 0, 1, 2  # where in the tally


@kernel
def dense(
    offsets: IntArray, docs: IntArray, z: IntArray, at: int, n_dk: FloatArray, n_k: IntArray, alpha: FloatArray,
    eta: float, key: np.uint64, gamma: float, tally: IntArray, word_reached: IntArray,
) -> int:  # fmt: skip
    """Redraw tokens at, at + 1, ...; returns the first token not redrawn: N, or where topics ran out.

    z (N,), n_dk (D, K rounded up), n_k (K,), alpha (K,), tally (3,), word_reached IN/OUT.
    """
    V, K = offsets.shape[0] - 1, alpha.shape[0]
    Veta, n_chunks = V * eta, n_dk.shape[1] // CHUNK
    n_w = np.zeros(K, np.int64)
    prior, b = np.zeros(n_dk.shape[1], np.float32), np.zeros(n_dk.shape[1], np.float32)
    p = np.empty(n_dk.shape[1], np.float32)
    sums = np.empty(n_chunks, np.float32)
    prior[:K] = alpha
    one = float32(1.0)
    spare, changed, evals = tally[SPARE], tally[CHANGED], tally[EVALS]
    w = np.searchsorted(offsets, at, side="right") - 1
    while w < V:
        start, end = offsets[w], offsets[w + 1]
        for t in range(start, end):
            n_w[z[t]] += 1
        for k in range(K):
            b[k] = (n_w[k] + eta) / (n_k[k] + Veta)
        for t in range(max(start, at), end):
            if spare == K - 1:
                tally[:] = spare, changed, evals
                return t
            old, row = z[t], n_dk[docs[t]]
            own = float32((row[old] - one + prior[old]) * ((n_w[old] - 1 + eta) / (n_k[old] - 1 + Veta)))
            total = float32(0.0)
            for c in range(n_chunks):
                inner = float32(0.0)
                for i in range(CHUNK):  # a constant: this becomes one vector
                    weight = (row[c * CHUNK + i] + prior[c * CHUNK + i]) * b[c * CHUNK + i]
                    p[c * CHUNK + i] = weight
                    inner += weight
                sums[c] = inner
                total += inner
            less = own - p[old]
            p[old] = own
            sums[old // CHUNK] += less
            x = float32(hashed(key, t) * (total + less))
            c = 0
            while c < n_chunks - 1 and x >= sums[c]:
                x -= sums[c]
                c += 1
            new = c * CHUNK
            inner = float32(0.0)
            for i in range(CHUNK - 1):
                inner += p[c * CHUNK + i]
                new += inner <= x
            if new != old and p[new] > 0.0:  # rounding may end the search beyond the last weight
                row[old] -= one
                row[new] += one
                n_w[old] -= 1
                n_w[new] += 1
                n_k[old] -= 1
                n_k[new] += 1
                b[old] = (n_w[old] + eta) / (n_k[old] + Veta)
                b[new] = (n_w[new] + eta) / (n_k[new] + Veta)
                z[t] = new
                changed += 1
                if new == spare:
                    break_stick(alpha, new, hashed(key, t + z.shape[0]), gamma)
                    prior[new], prior[new + 1] = alpha[new], alpha[new + 1]
                    spare += 1
        for t in range(start, end):
            word_reached[n_w[z[t]]] += 1
            n_w[z[t]] -= 1
        evals += (end - start) * K
        w += 1
    tally[:] = spare, changed, evals
    return int(docs.shape[0])


@kernel
def add_counts(x: IntArray, counts: IntArray) -> None:
    """Add how often each number occurs in x, of whatever dtype: `np.bincount` would copy x to eight bytes a number."""
    for t in range(x.shape[0]):
        counts[x[t]] += 1


@kernel
def count_dense(docs: IntArray, z: IntArray, n_dk: FloatArray) -> None:
    """Add the tokens to n_dk (D, K)."""
    for t in range(docs.shape[0]):
        n_dk[docs[t], z[t]] += 1


@kernel
def reach_dense(n_dk: FloatArray, starts: IntArray, reached: IntArray) -> None:
    """As `reach_sparse`."""
    for d in range(n_dk.shape[0]):
        for k in range(starts.shape[0] - 1):
            for i in range(int(n_dk[d, k])):
                reached[starts[k] + i] += 1
