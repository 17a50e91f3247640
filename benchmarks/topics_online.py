"""Online variational Bayes for LDA beside scikit-learn and gensim; topics of real texts beside all rivals.

    speed     5,000 documents of 100 tokens, 2,000 words, 20 topics with alpha 0.1 and eta 0.05; 500 are held out.
              Pass by pass, in turns; batches of 256 documents (gensim: 2,000, its default, which suits it better); a
              document's E-step ends when the mean change of its expected counts is below 1e-3, or after 100 rounds.
              gensim and weald learn alpha and eta, scikit-learn cannot and is given the true ones. Tokens per second
              are those of the median pass, weald's first four, which are read with means, left out. Time to a
              perplexity is CPU time until a look is within 1 % of it.
    quality   NIPS and 20 Newsgroups, a tenth held out, in the folder `WEALD_DATA` or `shared/data` beside the checkout;
              rivals in batches of 2,000 as well, scikit-learn also of all documents: which suits them goes by texts

Every model is judged by its topics and its own alpha through the same document completion: half of the tokens of a
held-out document, the same for all, tell its topics, the other half is predicted. One thread, CPU time; compilation and
the corpora of rivals are outside the clock, our start from anchor words is inside.

    python -m benchmarks.topics_online [--passes 10] [--figure PATH]      about a minute
    python -m benchmarks.topics_online --corpus nips news [--topics 20]   some minutes each
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.harness import Claim, conclude, cpu_seconds, draw_paths, heading, table
from benchmarks.topics_speed import DATA, FILES, real, score, synthetic
from weald import LDA
from weald.engine import Threads
from weald.topics import Corpus, Topics
from weald.topics.online import OnlinePasses, OnlineRule

BATCH, SETTLED, ROUNDS = 256, 1e-3, 100
PROMISED, SHARE, CLOSE = 590.0, 3.0, 1.01
TOMOTOPY_SWEEPS, RIVAL_PASSES = 500, 10
RIVALS = ("scikit-learn", "gensim", "tomotopy", "numba")
Passes = Iterator[Callable[[], Topics]]  # after each pass, how to look at the topics


def matrix(corpus: Corpus) -> Any:
    """CSR of a corpus."""
    return sp.csr_matrix((corpus.counts, corpus.words, corpus.indptr), shape=(corpus.n_documents, corpus.n_words))


def ours(train: Corpus, K: int) -> Passes:
    rule = OnlineRule(K, batch_size=BATCH, engine=Threads(1))
    passes, rng = OnlinePasses(rule, train), np.random.default_rng(0)
    state = passes.init(rng)
    while True:
        state, _ = passes.step(rng, state)
        yield lambda s=state: s.topics  # type: ignore[misc]


def scikit_learn(
    train: Corpus, K: int, alpha: float | None = None, eta: float | None = None, batch: int = BATCH
) -> Passes:
    from sklearn.decomposition import LatentDirichletAllocation

    X, rng = matrix(train), np.random.default_rng(0)
    model = LatentDirichletAllocation(
        K, doc_topic_prior=alpha, topic_word_prior=eta, total_samples=train.n_documents, mean_change_tol=SETTLED,
        max_doc_update_iter=ROUNDS, batch_size=batch, n_jobs=1, random_state=0,
    )  # fmt: skip
    while True:
        order = rng.permutation(train.n_documents)
        for start in range(0, len(order), batch):
            model.partial_fit(X[order[start : start + batch]])
        phi = model.components_ / model.components_.sum(axis=1, keepdims=True)
        yield lambda p=phi: Topics(p, np.full(K, model.doc_topic_prior_))  # type: ignore[misc]


def gensim(train: Corpus, K: int, batch: int = 2_000) -> Passes:
    from gensim.models import LdaModel

    ends, docs = zip(train.indptr[:-1], train.indptr[1:], strict=True), []
    for a, b in ends:
        docs.append(list(zip(train.words[a:b].tolist(), train.counts[a:b].tolist(), strict=True)))
    model = LdaModel(
        id2word={w: str(w) for w in range(train.n_words)}, num_topics=K, alpha="auto", eta="auto", chunksize=batch,
        gamma_threshold=SETTLED, iterations=ROUNDS, eval_every=None, random_state=0, dtype=np.float64,
    )  # fmt: skip
    while True:
        model.state.numdocs = 0  # else each pass counts as more documents
        model.update(docs, passes=1, update_every=1)
        phi = np.asarray(model.get_topics(), np.float64)
        alpha = np.asarray(model.alpha, np.float64)
        yield lambda p=phi, a=alpha: Topics(p / p.sum(axis=1, keepdims=True), a)  # type: ignore[misc]


def scikit_learn_at_once(train: Corpus, K: int) -> Topics:
    """As it comes, all documents in every iteration."""
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(K, max_iter=RIVAL_PASSES, n_jobs=1, random_state=0).fit(matrix(train))
    return Topics(model.components_ / model.components_.sum(axis=1, keepdims=True), np.full(K, model.doc_topic_prior_))


def tomotopy(train: Corpus, K: int) -> Topics:
    import tomotopy as tp

    model = tp.LDAModel(k=K, seed=1)
    for a, b in zip(train.indptr[:-1], train.indptr[1:], strict=True):
        model.add_doc([str(w) for w in np.repeat(train.words[a:b], train.counts[a:b])])
    model.train(TOMOTOPY_SWEEPS, workers=1)
    phi = np.tile(model.eta / (np.array(model.get_count_by_topics()) + train.n_words * model.eta), (train.n_words, 1)).T
    phi[:, [int(word) for word in model.used_vocabs]] = [model.get_topic_word_dist(k) for k in range(K)]
    return Topics(phi / phi.sum(axis=1, keepdims=True), np.array(model.alpha, np.float64))


def speed(n_passes: int, figure: str | None) -> list[Claim]:
    train, test = synthetic()
    next(ours(train.part(0, 600), 20))  # compiled before the clock starts
    models = {"weald": ours(train, 20), "scikit-learn": scikit_learn(train, 20, 0.1, 0.05), "gensim": gensim(train, 20)}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    looks: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(n_passes):
        for name, model in models.items():
            found: list[Any] = []
            seconds[name].append(cpu_seconds(lambda m=model, found=found: found.append(next(m))))  # type: ignore[misc]
            looks[name].append(score(found[0](), test))
    rates = {name: train.n_tokens / float(np.median(s[4:])) for name, s in seconds.items()}
    target = CLOSE * max(values[-1] for values in looks.values())
    reached = {
        name: float(np.cumsum(seconds[name])[np.argmax(np.array(values) <= target)]) for name, values in looks.items()
    }
    heading(f"Online variational Bayes, {n_passes} passes over 500,000 tokens, K = 20", RIVALS[:2] + RIVALS[3:])
    columns = ("", "M tokens/s", "perplexity after 1", "2", "4", "last", f"s to {target:.0f}", "s in all")
    shown = [0, 1, 3, n_passes - 1]
    table(columns, [
        (name, rates[name] / 1e6, *(round(looks[name][i], 1) for i in shown), reached[name], sum(seconds[name]))
        for name in models
    ])  # fmt: skip
    if figure:
        paths = {name: (np.cumsum(seconds[name]).tolist(), looks[name]) for name in models}
        draw_paths(figure, {"online variational Bayes, 20 topics": paths}, "perplexity held out")
    default = score(LDA(20, inference="online-vb", n_jobs=1, random_state=0).fit(matrix(train))._topics, test)
    print(f"\nLDA(20, inference='online-vb') as it comes: perplexity {default:.1f}")
    sooner = {name: reached["weald"] / reached[name] for name in ("scikit-learn", "gensim")}
    return [
        Claim("online-vb by default: perplexity", default, PROMISED),
        Claim("tokens per second, scikit-learn / weald", rates["scikit-learn"] / rates["weald"], 1 / SHARE),
        *(Claim(f"seconds to the same perplexity, weald / {name}", share, 1) for name, share in sooner.items()),
    ]


def last(passes: Passes) -> Topics:
    """Topics after `RIVAL_PASSES` passes."""
    for _ in range(RIVAL_PASSES - 1):
        next(passes)
    return next(passes)()


def quality(name: str, K: int) -> list[Claim]:
    train, test = real(name)
    X, fit = matrix(train), lambda X, how: LDA(K, inference=how, n_jobs=1, random_state=0).fit(X)._topics
    models: dict[str, Callable[[], Topics]] = {
        **{f"weald {how}": lambda how=how: fit(X, how) for how in ("gibbs", "online-vb", "vb", "em")},  # type: ignore[misc]
        f"tomotopy, {TOMOTOPY_SWEEPS} sweeps": lambda: tomotopy(train, K),
        **{
            f"gensim, {RIVAL_PASSES} passes, {batch} at a time": lambda b=batch: last(gensim(train, K, batch=b))  # type: ignore[misc]
            for batch in (BATCH, 2_000)
        },
        **{
            f"scikit-learn, {RIVAL_PASSES} passes, {batch} at a time": lambda b=batch: last(
                scikit_learn(train, K, batch=b)
            )  # type: ignore[misc]
            for batch in (BATCH, 2_000)
        },
        f"scikit-learn, {RIVAL_PASSES} passes, all at once": lambda: scikit_learn_at_once(train, K),
    }
    for how in ("gibbs", "online-vb", "vb", "em"):
        fit(X[:300], how)  # compiled before the clock starts
    seconds, found = {}, {}
    for model, learn in models.items():
        kept: list[Topics] = []
        seconds[model] = cpu_seconds(lambda learn=learn, kept=kept: kept.append(learn()))  # type: ignore[misc]
        found[model] = score(kept[0], test)
    n, tokens = train.n_documents, int(train.n_tokens)
    heading(f"{name}: {n:,} documents, {tokens:,} tokens, {train.n_words:,} words, K = {K}", RIVALS)
    table(("", "perplexity", "CPU s"), [(model, round(found[model], 1), seconds[model]) for model in models])
    best = min(value for model, value in found.items() if not model.startswith("weald"))
    online = min(value for model, value in found.items() if model.startswith(("gensim", "scikit-learn")))
    return [
        Claim(f"{name}, K = {K}: perplexity of gibbs / best rival", found["weald gibbs"] / best, 1),
        Claim(f"{name}, K = {K}: perplexity of online-vb / best online rival", found["weald online-vb"] / online, 1),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.topics_online")
    parser.add_argument("--corpus", nargs="+", choices=("synthetic", *FILES), default=["synthetic"])
    parser.add_argument("--topics", type=int, default=20, help="of real corpora")
    parser.add_argument("--passes", type=int, default=10, help="of the speed run, at least 5")
    parser.add_argument("--figure", help="where to draw perplexity against time")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")  # that few passes may not be enough is known
    due = speed(max(5, chosen.passes), chosen.figure) if "synthetic" in chosen.corpus else []
    for name in chosen.corpus:
        if name == "synthetic":
            continue
        if not (DATA / FILES[name]).is_file():
            print(f"skipped {name}: no {FILES[name]} in {DATA}; set WEALD_DATA to the folder that holds it")
            continue
        due += quality(name, chosen.topics)
    conclude(due)


if __name__ == "__main__":
    main()
