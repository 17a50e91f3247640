"""HDP beside those of tomotopy and gensim, all with their defaults, on a corpus of twenty topics.

5,000 documents of 100 tokens, 2,000 words, 20 topics with alpha 0.1 and eta 0.05; 500 documents are held out. Topics of
all models, and those that generated the corpus, answer the same question: half of the tokens of a held-out document
tell its topics, the other half is predicted. Topics of the rivals are counted as ours are: the fewest that hold 99 % of
the tokens. tomotopy sweeps as often as one of our fits does. One thread, CPU time.

    python -m benchmarks.topics_hdp            several seeds; minutes
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import weald
from benchmarks.harness import Claim, conclude, heading, table
from weald.datasets import make_topics
from weald.topics import Corpus, Topics
from weald.topics.hdp_gibbs import n_covering
from weald.topics.heldout import completion, perplexity

N, HELD_OUT, K, V, LENGTH = 5_000, 500, 20, 2_000, 100
SEEDS = (0, 1, 2)
SWEEPS = 200
MOST_PERPLEXITY, FEWEST, MOST = 575.0, 18, 24


def corpus_of(X: Any) -> Corpus:
    return Corpus(X.indptr, X.indices.astype(np.int32), X.data, X.shape[1])


def documents(X: Any) -> list[list[tuple[int, int]]]:
    return [
        list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]


def largest(phi: np.ndarray, alpha: np.ndarray, sizes: np.ndarray) -> Topics:
    """Topics that hold 99 % of the tokens."""
    kept = np.argsort(-sizes)[: n_covering(sizes)]
    return Topics(phi[kept] / phi[kept].sum(axis=1, keepdims=True), alpha[kept])


def ours(X: Any, seed: int, **options: Any) -> tuple[Topics, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", weald.exceptions.StatusWarning)
        hdp = weald.HDP(random_state=seed, n_jobs=1, **options).fit(X)
    return Topics(hdp.components_, hdp.alpha_), f"{hdp.n_topics_interval_}, {hdp.status_.verdict.value}"


def tomotopy(X: Any, seed: int, **options: Any) -> tuple[Topics, str]:
    import tomotopy as tp

    model = tp.HDPModel(seed=seed, **options)
    for document in documents(X):
        model.add_doc([str(w) for w, n in document for _ in range(n)])
    model.train(SWEEPS, workers=1)
    live = [k for k in range(model.k) if model.is_live_topic(k)]
    words = np.array([int(w) for w in model.used_vocabs])
    phi = np.full((len(live), V), 1e-12)
    phi[:, words] = [model.get_topic_word_dist(k) for k in live]
    sizes = np.array(model.get_count_by_topics(), float)[live]
    return largest(phi, model.alpha * sizes / sizes.sum(), sizes), f"{len(live)} live"


def gensim(X: Any, seed: int, **options: Any) -> tuple[Topics, str]:
    from gensim.models import HdpModel

    model = HdpModel(documents(X), {w: str(w) for w in range(V)}, random_state=seed, **options)
    alpha, phi = model.hdp_to_lda()
    theta = Topics(phi, alpha).proportions(corpus_of(X))
    return largest(phi, alpha, theta.sum(axis=0)), f"{len(alpha)} in all"


def row(name: str, find: Any, sim: Any, seed: int, **options: Any) -> tuple[Any, ...]:
    X = sim.X.tocsr()
    start = time.process_time()
    topics, note = find(X[:N], seed, **options)
    seconds = time.process_time() - start
    held_out = completion(topics, corpus_of(X[N:]), np.random.default_rng(0))
    return seed, name, seconds, topics.n_topics, perplexity(*held_out), note


def main() -> None:
    heading("HDP topic models: 20 topics, 500,000 tokens", ("tomotopy", "gensim"))
    ours(make_topics(100, 2, 50, 20, 0).X, 0, draws=4, warmup=4)  # compiles
    ours(make_topics(100, 2, 50, 20, 0).X, 0, inference="svi", max_iter=1)
    rows = []
    for seed in SEEDS:
        sim = make_topics(N + HELD_OUT, K, V, LENGTH, seed)
        truth = Topics(sim.truth["topics"], np.full(K, 0.1))
        held_out = completion(truth, corpus_of(sim.X.tocsr()[N:]), np.random.default_rng(0))
        rows.append((seed, "truth", 0.0, K, perplexity(*held_out), ""))
        rows.append(row("weald gibbs", ours, sim, seed))
        rows.append(row("weald svi", ours, sim, seed, inference="svi"))
        rows.append(row("tomotopy", tomotopy, sim, seed))
        rows.append(row("gensim", gensim, sim, seed))
        if seed == SEEDS[0]:
            rows.append(row("tomotopy from 20", tomotopy, sim, seed, initial_k=K))
    table(("seed", "model", "CPU s", "topics", "perplexity", "interval, or topics of any size"), rows)
    claims = []
    for name in ("weald gibbs", "weald svi"):
        found = [r for r in rows if r[1] == name]
        claims.append(Claim(f"{name}: perplexity, worst seed", max(r[4] for r in found), MOST_PERPLEXITY))
        claims.append(Claim(f"{name}: most topics", max(r[3] for r in found), MOST))
        claims.append(Claim(f"{name}: minus fewest topics", -min(r[3] for r in found), -FEWEST))
    best = min(r[4] for r in rows if r[1] in ("tomotopy", "gensim"))
    worst = max(r[4] for r in rows if r[1].startswith("weald"))
    claims.append(Claim("worst of weald over best default of the rivals, perplexity", worst / best, 1.0))
    conclude(claims)


if __name__ == "__main__":
    main()
