"""Gibbs sampling for LDA beside tomotopy: tokens per second, perplexity after equal sweeps, time to a perplexity.

    synthetic   5,000 documents of 100 tokens, 2,000 words, 20 topics with alpha 0.1 and eta 0.05; 500 are held out
    nips, news  bags of words in the folder `WEALD_DATA`, or `shared/data` beside the checkout (--corpus)

Of real corpora a tenth is held out. Both learn alpha from 2 / K each, and start with eta 0.05, which ours learns too. A
model is one draw of its sampler; topics answer the same question: half of the tokens of a held-out document tell its
topics, the other half is predicted. The rival's corpus is built before its clock starts; ours starts from anchor words,
whose time counts, and its sweeps include everything: counts, hyperparameters, the log joint. Samplers take turns, sweep
by sweep, so that other work on the machine slows all of them; tokens per second are those of the median sweep. Time to
a perplexity is CPU time until the first look at which it is within 1 % of the worse of both last ones. One thread.

    python -m benchmarks.topics_speed [--corpus nips] [--topics 20 500 1000] [--sweeps 100] [--figure PATH]
    python -m benchmarks.topics_speed --large       memory that a fit adds to 1,000,000 documents of 100 tokens
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks.harness import Claim, conclude, cpu_seconds, draw_paths, heading, table
from weald.datasets import make_topics
from weald.topics import Corpus, Topics
from weald.topics.gibbs import LDAKernel, gibbs
from weald.topics.heldout import completion, perplexity

DATA = Path(os.environ.get("WEALD_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
FILES = {"nips": "nips_bow/nips.npz", "news": "20news/20news_bow.npz"}
LOOKS = (1, 2, 3, 5, 10, 20, 30, 50, 70, 100, 150, 200, 300, 500)
MASS, ETA = 2.0, 0.05
WARM = 10  # sweeps before tokens per second are taken
SHARE = {20: 0.5, 500: 3.0, 1000: 3.0}  # of tomotopy's tokens per second
MANY = 100  # topics beyond which time to the perplexity of both is claimed, too
PROMISED = 560.0  # perplexity on the synthetic corpus
CLOSE = 1.01
DRAWN = ("weald auto", "tomotopy", "weald alias")  # what auto takes lies below its own line

FIT = """
import resource, warnings
import numpy as np
from weald.topics.corpus import Corpus
from weald.topics.gibbs import gibbs
def corpus(D):
    rng, n = np.random.default_rng(0), 50
    words = np.sort(rng.integers(0, 20_000, (D, n), dtype=np.int32), axis=1)
    return Corpus(np.arange(0, n * D + 1, n), words.ravel(), np.full(n * D, 2, np.int32), 20_000)
gibbs(corpus(1000), {K}, sampler="{sampler}", warmup=1, draws=2, key=np.uint64(0))   # kernels are not the fit's
X = corpus(1_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
gibbs(X, {K}, sampler="{sampler}", warmup=1, draws=2, key=np.uint64(0))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


class Look(NamedTuple):
    """A model after so many sweeps and CPU seconds."""

    sweeps: int
    seconds: float
    perplexity: float


class Run(NamedTuple):
    looks: list[Look]
    tokens_per_second: float

    def seconds_to(self, target: float) -> float:
        return next((look.seconds for look in self.looks if look.perplexity <= target), np.nan)


def synthetic() -> tuple[Corpus, Corpus]:
    X = make_topics(5500, 20, 2000, 100, 0, alpha=0.1, eta=0.05).X
    corpus = Corpus(X.indptr, X.indices.astype(np.int32), X.data, X.shape[1])
    return corpus.part(0, 5000), corpus.part(5000, 5500)


def real(name: str) -> tuple[Corpus, Corpus]:
    with np.load(DATA / FILES[name], allow_pickle=False) as z:
        X = sp.csr_array((z["data"].astype(np.int32), z["indices"].astype(np.int32), z["indptr"]), shape=z["shape"])
    X = X[np.random.default_rng(0).permutation(X.shape[0])]
    X = X[np.asarray(X.sum(axis=1)) > 0]
    corpus = Corpus(X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data, X.shape[1])
    cut = corpus.n_documents * 9 // 10
    return corpus.part(0, cut), corpus.part(cut, corpus.n_documents)


def score(topics: Topics, test: Corpus) -> float:
    return perplexity(*completion(topics, test, np.random.default_rng(0)))


def ours(train: Corpus, K: int, sampler: str) -> Iterator[Topics | None]:
    """One sweep after another; topics where they are asked for."""
    kernel, rng = LDAKernel(train, K, sampler=sampler, warmup=WARM), np.random.default_rng(0)
    tokens, state = kernel.tokens, kernel.init(rng)
    want = yield None
    while True:
        state, _ = kernel.step(rng, state)
        want = yield None
        if want:
            n_kw = np.bincount(state.z * np.int64(train.n_words) + tokens.words, minlength=K * train.n_words)
            p = n_kw.reshape(K, -1) + state.eta
            yield Topics(p / p.sum(axis=1, keepdims=True), state.alpha)


def tomotopy(train: Corpus, K: int) -> Iterator[Topics | None]:
    import tomotopy as tp

    model = tp.LDAModel(k=K, alpha=MASS / K, eta=ETA, seed=1)
    for a, b in zip(train.indptr[:-1], train.indptr[1:], strict=True):
        model.add_doc([str(w) for w in np.repeat(train.words[a:b], train.counts[a:b])])
    want = yield None
    while True:
        model.train(1, workers=1)
        want = yield None
        if want:
            phi = np.tile(ETA / (np.array(model.get_count_by_topics()) + train.n_words * ETA), (train.n_words, 1)).T
            phi[:, [int(word) for word in model.used_vocabs]] = [model.get_topic_word_dist(k) for k in range(K)]
            yield Topics(phi / phi.sum(axis=1, keepdims=True), np.array(model.alpha, np.float64))


def measure(models: dict[str, Any], train: Corpus, test: Corpus, n_sweeps: int) -> dict[str, Run]:
    """CPU seconds of sweeps; our tokens and start are included, the corpus of the rival and looks are not."""
    each: dict[str, list[float]] = {name: [] for name in models}
    looks: dict[str, list[Look]] = {name: [] for name in models}
    spent = {name: cpu_seconds(lambda m=model: next(m)) for name, model in models.items()}
    spent["tomotopy"] = 0.0
    for sweep in range(1, n_sweeps + 1):
        for name, model in models.items():
            each[name].append(cpu_seconds(lambda m=model: next(m)))
            spent[name] += each[name][-1]
            if sweep in LOOKS or sweep == n_sweeps:
                looks[name].append(Look(sweep, spent[name], score(model.send(True), test)))
    speed = {name: train.n_tokens / float(np.median(x[min(WARM, n_sweeps - 1) :])) for name, x in each.items()}
    return {name: Run(looks[name], speed[name]) for name in models}


def compare(name: str, K: int, n_sweeps: int) -> tuple[list[Claim], dict[str, Run]]:
    """One table, and what it has to show; the runs."""
    train, test = synthetic() if name == "synthetic" else real(name)
    samplers = ("dense", "sparse", "alias") if K <= 100 else ("sparse", "alias")
    for sampler in samplers:
        ours_first = ours(train.part(0, 50), 9, sampler)  # compiles
        next(ours_first), next(ours_first)
    models = {"tomotopy": tomotopy(train, K)} | {f"weald {s}": ours(train, K, s) for s in (*samplers, "auto")}
    runs = measure(models, train, test, n_sweeps)
    rival, auto = runs["tomotopy"], runs["weald auto"]
    target = CLOSE * max(run.looks[-1].perplexity for run in (rival, auto))
    print(f"\n{name}, K = {K}: {train.n_documents} documents, {train.n_tokens:.0f} tokens, {n_sweeps} sweeps")
    rows = [
        (
            label, run.tokens_per_second / 1e6, run.tokens_per_second / rival.tokens_per_second,
            *(f"{x.perplexity:.0f} ({x.seconds:.1f} s)" for x in run.looks if x.sweeps in (10, 30, n_sweeps)),
            run.seconds_to(target),
        )
        for label, run in runs.items()
    ]  # fmt: skip
    columns = [f"after {look.sweeps}" for look in rival.looks if look.sweeps in (10, 30, n_sweeps)]
    table(("", "M tokens/s", "to tomotopy", *columns, f"s to {target:.0f}"), rows)
    slower = rival.tokens_per_second / auto.tokens_per_second
    where = f"{name}, K = {K}"
    claims = [Claim(f"{where}: tomotopy's tokens/s to ours", slower, 1.0 / SHARE[K])] if K in SHARE else []
    claims.append(
        Claim(f"{where}: our perplexity to tomotopy's", auto.looks[-1].perplexity / rival.looks[-1].perplexity, CLOSE)
    )
    if K > MANY:
        sooner = auto.seconds_to(target) / rival.seconds_to(target)
        claims.append(Claim(f"{where}: seconds to perplexity {target:.0f}, ours / tomotopy's", sooner, 1 / 3))
    if name == "synthetic" and K == 20:
        mean = score(gibbs(train, K, key=np.uint64(0)).topics, test)
        claims.append(Claim(f"{where}: perplexity of a whole fit of ours, means of draws", mean, PROMISED))
    return claims, runs


def draw(path: str, found: dict[int, dict[str, Run]]) -> None:
    """Perplexity against time, from the second look on."""
    panels = {
        f"{K:,} topics": {
            label: (
                [look.seconds for look in runs[label].looks[1:]],
                [look.perplexity for look in runs[label].looks[1:]],
            )
            for label in DRAWN
        }
        for K, runs in found.items()
    }
    draw_paths(path, panels, "perplexity held out")


def added(sampler: str, K: int) -> float:
    """Megabytes that a fit adds to a million documents of 100 tokens."""
    code = FIT.format(sampler=sampler, K=K)
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def large() -> list[Claim]:
    rows = [(sampler, K, added(sampler, K)) for sampler, K in (("dense", 20), ("sparse", 100))]
    table(("sampler", "K", "added MB"), rows)
    return [Claim("largest addition, MB", max(row[2] for row in rows), 2048.0)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", choices=("synthetic", *FILES), default="synthetic")
    parser.add_argument("--topics", nargs="+", type=int, default=[20, 500, 1000])
    parser.add_argument("--sweeps", type=int, default=100)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--figure", help="where to draw perplexity against time")
    chosen = parser.parse_args()
    heading("LDA by collapsed Gibbs sampling", ("tomotopy", "numba"))
    if chosen.large:
        conclude(large())
    found = {K: compare(chosen.corpus, K, chosen.sweeps) for K in chosen.topics}
    if chosen.figure:
        draw(chosen.figure, {K: runs for K, (_, runs) in found.items()})
    conclude([claim for claims, _ in found.values() for claim in claims])


if __name__ == "__main__":
    main()
