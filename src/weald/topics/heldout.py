"""How well topics predict documents that they have not seen.

    completion      theta = E[theta | one half of the tokens],   log p = sum of log sum_k theta_k phi_kw over the rest
    left to right   log p(w) = sum_i log p(w_i | w_1, ..., w_(i-1)),  the proportions of topics integrated out
    perplexity      exp(- sum_d log p_d / sum_d n_d)

Completion draws floor(n / 2) of the n tokens of each document without replacement, and asks nothing that a user could
not ask: what comes next? A document of one token is predicted from the prior mean. Its log probability is that of a
plug-in, the same for every model, and cheap: one fold-in.

Left to right estimates the evidence of a whole document with particles. Each holds topics z_1, ..., z_(i-1), and

    1. is weighted by p(w_i | z_<i) = sum_k phi_kw (n_k + alpha_k) / (i - 1 + sum alpha);
    2. draws z_i from p(z_i | z_<i, w_i), then draws the earlier topics again, each given all others (Gibbs);
    3. where weights have become uneven, particles are drawn anew by weight.

Steps 1 and 2 are annealed importance sampling along p(z_1..i | w_1..i), so the estimate of p(w) is unbiased for any
number of particles; that of log p(w) is a lower bound on average, and tightens as they grow. Averaging each factor over
particles that carry no weights, as in the published forms, is unbiased for one particle only: step 3 is what makes
the average right. The order of tokens does not matter to p(w), which is that of a sequence: no multinomial coefficient.
At most `MOVES` earlier topics, at random, are drawn again after each token, which bounds the cost of long documents
at n K `MOVES` for each particle, and leaves the estimate unbiased.

References: Wallach, Murray, Salakhutdinov, Mimno (2009), Evaluation methods for topic models; Buntine (2009),
Estimating likelihoods for topic models; Del Moral, Doucet, Jasra (2006); journal (003) (167), as corrected.

    >>> topics = Topics(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([1.0, 1.0]))
    >>> corpus = Corpus(np.array([0, 1]), np.array([0], np.int32), np.array([1.0]), 2)
    >>> log_p, n_tokens = left_to_right(topics, corpus, 5, np.random.default_rng(0))
    >>> round(float(np.exp(log_p[0])), 6), round(perplexity(log_p, n_tokens), 6)
    (0.55, 1.818182)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numba import uint32

from weald._kernel import inline, kernel
from weald._random import sweep_key, uniform
from weald._typing import FloatArray, IntArray
from weald.engine import Threads
from weald.exceptions import DataError, ParameterError
from weald.topics.corpus import Corpus
from weald.topics.fold_in import Topics

TILE = 256  # documents in work at a time, for each thread
MOVES = 256  # earlier topics that are drawn again after each token
UNEVEN = 0.5  # effective share of particles below which they are drawn anew


def completion(
    topics: Topics, corpus: Corpus, rng: np.random.Generator, engine: Threads | None = None
) -> tuple[FloatArray, FloatArray]:
    """Log probability of one half of the tokens of each document given the other.

    Parameters
    ----------
    topics : Topics
        Words of topics, and the prior of proportions.
    corpus : Corpus
        Documents with whole counts.
    rng : Generator
        Which tokens are which.
    engine : Threads, optional
        Where documents run; it does not change the result.

    Returns
    -------
    log_p, n_tokens : arrays of shape (D,)
        Log probability of the half that is predicted, and its number of tokens; both 0 for an empty document.
    """
    key, by_word = sweep_key(rng), topics.by_word

    def of_tile(tile: slice) -> FloatArray:
        part = _part(corpus, tile)
        told = np.empty(len(part.words))
        _choose_half(part.indptr, part.counts, key, tile.start, told)
        theta = topics.proportions(_only(part, told), Threads(1))
        log_p = np.empty(part.n_documents)
        _log_mixed(part.indptr, part.words, part.counts - told, by_word, theta, log_p)
        return log_p

    return _by_tiles(of_tile, corpus, engine), corpus.lengths - np.floor(corpus.lengths / 2)


def left_to_right(
    topics: Topics, corpus: Corpus, n_particles: int, rng: np.random.Generator, engine: Threads | None = None
) -> tuple[FloatArray, FloatArray]:
    """Log evidence of each document, its proportions integrated out.

    Parameters
    ----------
    topics : Topics
        Words of topics, and the prior of proportions.
    corpus : Corpus
        Documents with whole counts.
    n_particles : int
        Samples of the topics of each document: exp(log_p) is unbiased for any number, log_p comes closer with more.
    rng : Generator
        Randomness.
    engine : Threads, optional
        Where documents run; it does not change the result.

    Returns
    -------
    log_p, n_tokens : arrays of shape (D,)
        Log evidence, and number of tokens; both 0 for an empty document.
    """
    key, by_word = sweep_key(rng), topics.by_word

    def of_tile(tile: slice) -> FloatArray:
        part = _part(corpus, tile)
        log_p = np.empty(part.n_documents)
        _left_to_right(
            part.indptr, part.words, part.counts, by_word, topics.alpha, n_particles, MOVES, key, tile.start, log_p
        )
        return log_p

    return _by_tiles(of_tile, corpus, engine), corpus.lengths


def perplexity(log_p: FloatArray, n_tokens: FloatArray, per: Literal["corpus", "document"] = "corpus") -> float:
    """The size of a vocabulary of equally probable words that would be as hard to predict.

    Parameters
    ----------
    log_p, n_tokens : arrays of shape (D,)
        Log probability of each document, and how many of its tokens were predicted; those with none take no part.
    per : str
        ``"corpus"``: exp(-sum of log p / number of tokens); ``"document"``: exp(-mean of log p / tokens over
        documents), as printed in (167), where a token of a short document weighs more.

    Returns
    -------
    float
        Infinite where a word has probability zero.
    """
    seen = n_tokens > 0
    if not seen.any():
        raise DataError("there is no token to predict, so there is no perplexity: all documents are empty")
    if per == "corpus":
        mean = log_p[seen].sum() / n_tokens[seen].sum()
    elif per == "document":
        mean = np.mean(log_p[seen] / n_tokens[seen])
    else:
        raise ParameterError(f"per must be 'corpus' or 'document', got {per!r}")
    with np.errstate(over="ignore"):
        return float(np.exp(-mean))


def _by_tiles(of_tile: Callable[[slice], FloatArray], corpus: Corpus, engine: Threads | None) -> FloatArray:
    """What a function makes of tiles of documents, in their order."""
    n = corpus.n_documents
    tiles = [slice(start, min(start + TILE, n)) for start in range(0, n, TILE)]
    return np.concatenate([np.empty(0), *(engine or Threads()).map(of_tile, tiles)])


def _part(corpus: Corpus, tile: slice) -> Corpus:
    """Documents of a tile; one dtype, so that kernels are compiled once."""
    part = corpus.part(tile.start, tile.stop)
    return Corpus(part.indptr.astype(np.int64), part.words, part.counts.astype(np.float64), part.n_words)


def _only(part: Corpus, counts: FloatArray) -> Corpus:
    """The same documents with these counts."""
    kept = counts > 0
    return Corpus(np.append(0, np.cumsum(kept))[part.indptr], part.words[kept], counts[kept], part.n_words)


@kernel
def _choose_half(indptr: IntArray, counts: FloatArray, key: Any, first: int, told: FloatArray) -> None:
    """Draw floor(n / 2) of the n tokens of each document without replacement; told (m,) OUT: how many of each entry."""
    for d in range(indptr.shape[0] - 1):
        left = 0
        for j in range(indptr[d], indptr[d + 1]):
            left += int(counts[j])
        wanted, stream = left // 2, uint32(0)
        for j in range(indptr[d], indptr[d + 1]):
            told[j] = 0.0
            for _ in range(int(counts[j])):
                if uniform(key, first + d, stream) * left < wanted:
                    told[j] += 1.0
                    wanted -= 1
                left -= 1
                stream += uint32(1)


@kernel
def _log_mixed(
    indptr: IntArray, words: IntArray, counts: FloatArray, by_word: FloatArray, theta: FloatArray, log_p: FloatArray
) -> None:
    """log_p (D,) OUT: sum of counts times log sum_k theta_dk phi_kw."""
    for d in range(theta.shape[0]):
        log_p[d] = 0.0
        for j in range(indptr[d], indptr[d + 1]):
            if counts[j] > 0.0:
                p = 0.0
                for k in range(theta.shape[1]):
                    p += theta[d, k] * by_word[words[j], k]
                log_p[d] += counts[j] * np.log(p)


@inline
def _draw(cumulated: Any, u: Any) -> Any:
    """Index drawn by cumulated weights (K,), from u in [0, 1)."""
    k = np.searchsorted(cumulated, u * cumulated[-1], side="right")
    return min(k, cumulated.shape[0] - 1)


@kernel
def _predict(p_word: FloatArray, n_k: FloatArray, alpha: FloatArray, cumulated: FloatArray) -> float:
    """Sum of phi_kw (n_k + alpha_k), cumulated (K,) OUT."""
    total = 0.0
    for k in range(alpha.shape[0]):
        total += p_word[k] * (n_k[k] + alpha[k])
        cumulated[k] = total
    return total


@kernel
def _draw_anew(weight: FloatArray, u: float, z: IntArray, n_k: FloatArray, i: int) -> None:
    """Systematic draw of particles by weight: topics z (R, n) of tokens 0..i-1 and counts n_k (R, K) IN/OUT."""
    R = weight.shape[0]
    source, cumulated, r = np.empty(R, np.int64), weight[0], 0
    total = weight.sum()
    for s in range(R):
        while (u + s) * total > cumulated * R and r < R - 1:
            r += 1
            cumulated += weight[r]
        source[s] = r
    old_z, old_n = z[:, :i].copy(), n_k.copy()
    for s in range(R):
        z[s, :i] = old_z[source[s]]
        n_k[s] = old_n[source[s]]


@kernel
def _gibbs(
    i: int, tokens: IntArray, by_word: FloatArray, alpha: FloatArray, moves: int, key: Any, row: int, stream: int,
    z: IntArray, n_k: FloatArray, cumulated: FloatArray,
) -> int:  # fmt: skip
    """Draw topics of tokens 0..i-1 again, each given the others, or `moves` of them; z (n,), n_k (K,) IN/OUT."""
    for step in range(min(i, moves)):
        j = step
        if i > moves:
            j = int(uniform(key, row, uint32(stream)) * i)
            stream += 1
        n_k[z[j]] -= 1.0
        _predict(by_word[tokens[j]], n_k, alpha, cumulated)
        z[j] = _draw(cumulated, uniform(key, row, uint32(stream)))
        stream += 1
        n_k[z[j]] += 1.0
    return stream


@kernel
def _left_to_right(
    indptr: IntArray, words: IntArray, counts: FloatArray, by_word: FloatArray, alpha: FloatArray, n_particles: int,
    moves: int, key: Any, first: int, log_p: FloatArray,
) -> None:  # fmt: skip
    """log_p (D,) OUT: estimated log evidence of each document."""
    K, R, prior = alpha.shape[0], n_particles, alpha.sum()
    cumulated, weight, n_k = np.empty(K), np.empty(R), np.empty((R, K))
    for d in range(log_p.shape[0]):
        tokens = _tokens(indptr[d], indptr[d + 1], words, counts)
        z = np.empty((R, tokens.shape[0]), np.int32)
        stream = 0
        weight[:], n_k[:], log_p[d] = 1.0 / R, 0.0, 0.0
        for i in range(tokens.shape[0]):
            p_word = by_word[tokens[i]]
            for r in range(R):
                weight[r] *= _predict(p_word, n_k[r], alpha, cumulated) / (i + prior)
            total = weight.sum()
            log_p[d] += np.log(total)
            if not total > 0.0:
                break
            weight /= total
            if 1.0 / (weight * weight).sum() < UNEVEN * R:
                _draw_anew(weight, uniform(key, first + d, uint32(stream)), z, n_k, i)
                stream += 1
                weight[:] = 1.0 / R
            for r in range(R):
                _predict(p_word, n_k[r], alpha, cumulated)
                z[r, i] = _draw(cumulated, uniform(key, first + d, uint32(stream)))
                n_k[r, z[r, i]] += 1.0
                stream = _gibbs(
                    i + 1, tokens, by_word, alpha, moves, key, first + d, stream + 1, z[r], n_k[r], cumulated
                )


@kernel
def _tokens(a: int, b: int, words: IntArray, counts: FloatArray) -> IntArray:
    """Word of each token of entries a, ..., b - 1."""
    n = 0
    for j in range(a, b):
        n += int(counts[j])
    tokens, i = np.empty(n, np.int32), 0
    for j in range(a, b):
        for _ in range(int(counts[j])):
            tokens[i] = words[j]
            i += 1
    return tokens
