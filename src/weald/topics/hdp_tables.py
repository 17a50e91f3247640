"""The variational q of one document after another in the HDP: tables, their topics, and who sits where.

    r_nt     propto exp{ E log pi_t + sum_k zeta_tk E log phi_k,w(n) }
    zeta_tk  propto exp{ E log sigma_k + sum_n r_nt E log phi_k,w(n) }
    pi_t     ~ Beta( 1 + sum_n r_nt,  alpha + sum_n sum_(u>t) r_nu )

in turn, until the document's share of the bound stands still; it is taken right after r, whose part of it is then
sum_n log sum_t exp{...}. Tokens of one word share their r. Algorithm 5 of journal (003), lines 5 to 10; what starts the
tables is in `seat`. Cost: 2 K T multiplications for each distinct word and round.

    >>> log_b = np.empty((1, 2))
    >>> log_words(np.array([[3.0, 0.0], [0.0, 3.0]]), 1.0, np.array([3.0, 3.0]), np.array([0]), log_b)
    >>> log_b.round(2)
    array([[-0.25, -2.08]])
"""

from __future__ import annotations

import math

import numpy as np

from weald._kernel import kernel
from weald._typing import FloatArray, IntArray
from weald.topics.expect import digamma

FOLDS = 8  # rounds of the quick fold-in
LEAST = 1e-12  # tokens at a table that no longer count


@kernel
def log_words(S: FloatArray, eta: float, n_k: FloatArray, words: IntArray, log_b: FloatArray) -> None:
    """E log phi of some words, log_b (U, K) OUT (202)."""
    V, K = S.shape
    for k in range(K):
        total = digamma(V * eta + n_k[k])
        for i in range(words.shape[0]):
            log_b[i, k] = digamma(eta + S[words[i], k]) - total


@kernel
def climb(
    indptr: IntArray, slots: IntArray, counts: FloatArray, log_b: FloatArray, b: FloatArray, log_sigma: FloatArray,
    sigma: FloatArray, alpha: float, first: int, zeta: FloatArray, g: FloatArray, cold: bool, S: FloatArray,
    C: FloatArray, rounds: int, settled: float,
) -> tuple[float, float]:  # fmt: skip
    """Climb the bound of documents first, ..., first + n - 1; returns it, and the sum of E log(1 - pi).

    log_b (U, K); b (U, K): its exp over the largest entry of each word; zeta (n, T, K), g (n, T, 2) IN (unless cold) /
    OUT; S (U, K), C (K,) IN/OUT: gain words and tables of topics.
    """
    n, T, K = zeta.shape
    total, rest, longest = 0.0, 0.0, 0
    for i in range(n):
        longest = max(longest, indptr[first + i + 1] - indptr[first + i])
    r, log_pi, sat = np.empty((longest, T)), np.empty(T), np.empty(T)
    for i in range(n):
        a, end = indptr[first + i], indptr[first + i + 1]
        length = 0.0
        for j in range(a, end):
            length += counts[j]
        if cold:
            seat(slots[a:end], counts[a:end], b, sigma, alpha, zeta[i], g[i])
        before = -np.inf
        for lap in range(rounds):
            bound, left = prior_of(zeta[i], g[i], log_sigma, alpha, log_pi)
            sat[:] = 0.0
            for j in range(a, end):
                row, top = log_b[slots[j]], -np.inf
                for t in range(T):
                    x = log_pi[t]
                    for k in range(K):
                        x += zeta[i, t, k] * row[k]
                    r[j - a, t] = x
                    top = max(top, x)
                mass = 0.0
                for t in range(T):
                    r[j - a, t] = math.exp(r[j - a, t] - top)
                    mass += r[j - a, t]
                bound += counts[j] * (top + math.log(mass))
                for t in range(T):
                    r[j - a, t] *= counts[j] / mass
                    sat[t] += r[j - a, t]
            if bound - before < settled * length or lap == rounds - 1:
                break
            before = bound
            tables(slots[a:end], r, log_b, log_sigma, sat, alpha, zeta[i], g[i])
        total += bound
        rest += left
        for t in range(T):
            for k in range(K):
                C[k] += zeta[i, t, k]
            for j in range(a, end):
                if r[j - a, t] > LEAST:
                    for k in range(K):
                        S[slots[j], k] += r[j - a, t] * zeta[i, t, k]
    return total, rest


@kernel
def seat(
    slots: IntArray, counts: FloatArray, b: FloatArray, sigma: FloatArray, alpha: float, zeta: FloatArray,
    g: FloatArray,
) -> None:  # fmt: skip
    """Where a document starts: a table for each of the T topics that a quick fold-in finds; zeta, g OUT."""
    T, K = zeta.shape
    theta, n_k, p = np.ones(K), np.empty(K), np.empty(K)
    for _ in range(FOLDS):
        n_k[:] = 0.0
        for j in range(slots.shape[0]):
            mass = 0.0
            for k in range(K):
                p[k] = theta[k] * b[slots[j], k]
                mass += p[k]
            for k in range(K):
                n_k[k] += counts[j] * p[k] / mass
        for k in range(K):
            theta[k] = n_k[k] + alpha * sigma[k]
    zeta[:] = 0.0
    after = 0.0
    for k in range(K):
        after += n_k[k]
    for t in range(T):
        k = int(np.argmax(theta))
        zeta[t, k] = 1.0
        after = max(after - n_k[k], 0.0)
        g[t, 0], g[t, 1] = 1.0 + n_k[k], alpha + after
        theta[k] = -1.0


@kernel
def prior_of(
    zeta: FloatArray, g: FloatArray, log_sigma: FloatArray, alpha: float, log_pi: FloatArray
) -> tuple[float, float]:
    """Minus the divergence of tables and sticks of a document from their prior; sum E log(1 - pi); log_pi (T,) OUT."""
    T, K = zeta.shape
    bound, gone = 0.0, 0.0
    for t in range(T):
        for k in range(K):
            if zeta[t, k] > 0.0:
                bound += zeta[t, k] * (log_sigma[k] - math.log(zeta[t, k]))
        if t == T - 1:
            log_pi[t] = gone
            break
        a, b = g[t, 0], g[t, 1]
        whole = digamma(a + b)
        log_one, log_rest = digamma(a) - whole, digamma(b) - whole
        log_pi[t] = gone + log_one
        gone += log_rest  # the sum over the sticks so far
        bound += math.log(alpha) + (alpha - b) * log_rest - (a - 1.0) * log_one
        bound += math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    return bound, gone


@kernel
def tables(
    slots: IntArray, r: FloatArray, log_b: FloatArray, log_sigma: FloatArray, sat: FloatArray, alpha: float,
    zeta: FloatArray, g: FloatArray,
) -> None:  # fmt: skip
    """The best topics of the tables and sticks, given where tokens sit; zeta, g OUT."""
    T, K = zeta.shape
    after = 0.0
    for t in range(T - 1, -1, -1):
        g[t, 0], g[t, 1] = 1.0 + sat[t], alpha + after
        after += sat[t]
        zeta[t] = log_sigma
        for j in range(slots.shape[0]):
            if r[j, t] > LEAST:
                for k in range(K):
                    zeta[t, k] += r[j, t] * log_b[slots[j], k]
        top, mass = zeta[t].max(), 0.0
        for k in range(K):
            zeta[t, k] = math.exp(zeta[t, k] - top)
            mass += zeta[t, k]
        for k in range(K):
            zeta[t, k] /= mass
