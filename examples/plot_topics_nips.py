"""
Papers: how many topics are there?
==================================

A hierarchical Dirichlet process finds the topics of a corpus and their number, with an interval. It starts from one
topic, and splits and merges topics as the documents ask for.
"""

# %%
# With the papers of the NIPS conference in the folder ``WEALD_DATA`` this page shows them: ``nips_bow/nips.npz``
# holds the counts of words as the arrays of a sparse matrix, and the vocabulary. Otherwise it shows made-up papers,
# of which the truth is known: nine subjects, of very different sizes, and the phrases of all papers; each mixes two
# or three.

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

import weald
from weald import plot

FILE = Path(os.environ.get("WEALD_DATA", "nowhere")) / "nips_bow" / "nips.npz"
SUBJECTS = {
    "phrases": "model result method show paper problem number case set approach function large",
    "networks": "network unit weight layer hidden training output input error gradient backpropagation neural",
    "bayes": "posterior prior gaussian likelihood distribution variance parameter estimate mixture sample density em",
    "control": "policy reward action state reinforcement value agent controller environment optimal reach step",
    "vision": "image object pixel face recognition visual scene view feature edge texture motion",
    "brain": "cell neuron spike cortex firing stimulus synaptic response receptive field orientation cortical",
    "kernels": "kernel margin vector support classifier bound hyperplane separable loss generalization convex dual",
    "speech": "speech word speaker phoneme acoustic hmm recognition sequence context frame vocabulary utterance",
    "chips": "circuit chip analog voltage current transistor vlsi silicon device pulse gate digital",
    "sources": "signal source independent component separation mixing filter noise blind channel frequency linear",
}


def made_up(n, rng):
    """Papers, each a mixture of subjects; within a subject the r-th word is r times rarer than the first."""
    lists = [words.split() for words in SUBJECTS.values()]
    popularity = 1 / np.arange(1, len(lists) + 1)
    texts = []
    for theta in rng.dirichlet(1.2 * popularity / popularity.sum() + 0.02, size=n):
        sizes = rng.multinomial(rng.integers(60, 140), theta)
        drawn = [
            rng.choice(w, m, p=(p := 1 / np.arange(1, len(w) + 1)) / p.sum()) for w, m in zip(lists, sizes, strict=True)
        ]
        texts.append(" ".join(np.concatenate(drawn)))
    counter = CountVectorizer()
    return counter.fit_transform(texts), counter.get_feature_names_out()


rng = np.random.default_rng(0)
if FILE.exists():
    with np.load(FILE) as data:
        X = sparse.csr_array(
            (data["data"].astype(np.int32), data["indices"].astype(np.int32), data["indptr"]), data["shape"]
        )
        words = data["vocab"]
else:
    X, words = made_up(300, rng)
X = X[rng.permutation(X.shape[0])]
n_test = X.shape[0] // 10
test, train = X[:n_test], X[n_test:]
print(f"{train.shape[0]:,} papers to learn from, {n_test:,} kept back, {X.shape[1]:,} words, {X.sum():,} tokens")

# %%
# The fit. Nothing says how many topics to look for. Left out, ``draws`` and ``warmup`` go by the size of the corpus.

hdp = weald.HDP(draws=200, warmup=200, random_state=0).fit(train)
print(hdp.status_)
print(f"{hdp.n_topics_} topics, 95 % interval {hdp.n_topics_interval_}")

# %%
# The number of topics in each sweep. It grows from one: topics are split as long as that explains the papers better.

ax = plot.plot_trace(hdp.posterior_, "n_topics")
ax.set(xscale="log", ylim=(0, 1.1 * hdp.posterior_.stats["n_topics"].max()))
plt.show()

# %%
# The topics, largest first: bars are probabilities, percentages shares of all words.

plot.plot_topic_words(hdp, words, 8)
plt.show()

# %%
# A map: topics with similar words are near each other, areas are sizes.

plot.plot_topic_map(hdp, words)
plt.show()

# %%
# New papers are mixtures of these topics.

plot.plot_mixtures(hdp.transform(test[:12]), [f"paper {i}" for i in range(12)])
plt.show()

# %%
# Is the number right? ``LDA`` can be asked for any. Perplexity of the papers kept back falls steeply up to about what
# the HDP found, and hardly, or not at all, beyond it. One number tells it in one fit.

K = sorted({max(2, round(hdp.n_topics_ * share)) for share in (0.25, 0.5, 1.0, 2.0)})
curve = [weald.LDA(k, inference="online-vb", random_state=0).fit(train).perplexity(test) for k in K]
figure, ax = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
ax.plot(K, curve, "o-", color=plot.COLOURS[2], label="LDA, number given")
ax.plot(hdp.n_topics_, hdp.perplexity(test), "o", markersize=9, color=plot.COLOURS[1], label="HDP, number found")
ax.set(xlabel="topics", ylabel="held-out perplexity", xticks=K)
ax.legend(frameon=False)
plt.show()
