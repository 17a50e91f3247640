"""
Groups of documents, their number unknown
=========================================

Documents are counts of words, most of them zero. A multinomial mixture with a Dirichlet process prior groups them
without being told how many groups there are, says which words make each group, and how sure it is of every document.
The counts stay sparse throughout.
"""

# %%
# A small corpus whose truth is known: 300 short texts, each on one of six themes, with common words and strays in
# between. Within a theme word frequencies follow Zipf's law: the r-th word is r times rarer than the first. A few texts
# change the subject half way, and lengths differ much. scikit-learn counts the words.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

import weald
from weald import plot

THEMES = {
    "kitchen": "oven butter flour garlic onion recipe salt pepper soup bake",
    "harbour": "ship harbour sail captain tide anchor crew storm cargo deck",
    "garden": "garden soil seed rose prune compost weed bulb hedge blossom",
    "orchestra": "violin concert melody orchestra piano rhythm choir opera chord cello",
    "hospital": "doctor patient nurse fever surgery clinic dose therapy vaccine heart",
    "court": "judge law trial witness jury verdict court appeal evidence crime",
}
COMMON = "time people day year new good long great small work place way"
SHARES = (0.28, 0.22, 0.18, 0.14, 0.10, 0.08)


def zipf(text, n, rng):
    words = text.split()
    p = 1 / np.arange(1, len(words) + 1)
    return rng.choice(words, size=n, p=p / p.sum())


def write(themes, length, rng):
    """A text: its themes in turn, half of the words common, one in ten stray."""
    n_common, n_stray = rng.multinomial(length, [0.5, 0.1, 0.4])[:2]
    parts = [zipf(THEMES[theme], (length - n_common - n_stray) // len(themes), rng) for theme in themes]
    strays = [zipf(THEMES[theme], 1, rng) for theme in rng.choice(list(THEMES), n_stray)]
    return " ".join(np.concatenate([*parts, *strays, zipf(COMMON, n_common, rng)]))


rng = np.random.default_rng(1)
truth = rng.choice(len(THEMES), size=300, p=SHARES)
second = np.where(rng.random(300) < 0.05, rng.integers(len(THEMES), size=300), truth)
names = list(THEMES)
texts = [
    write([names[i]] if i == j else [names[i], names[j]], rng.integers(6, 70), rng)
    for i, j in zip(truth, second, strict=True)
]
counter = CountVectorizer()
X = counter.fit_transform(texts)
words = counter.get_feature_names_out()
print(f"{X.shape[0]} documents, {X.shape[1]} words, {X.nnz / np.prod(X.shape):.0%} of counts are not zero")
print(texts[0])

# %%
# The fit. One number says how many groups there are, an interval how sure that is.

model = weald.DPMixture(family="multinomial", draws=400, warmup=100, random_state=0).fit(X)
print(model.status_)
print(f"{model.n_components_} groups, 95 % interval {model.n_components_interval_}")

# %%
# What makes a group: words that are more probable in it than in the corpus. ``probabilities_`` has a row for each group
# of ``partition_``; words are ranked by what they say for the group, p log(p/q), q their frequency in the corpus
# (dots). The six themes are found.

q = np.asarray(X.sum(axis=0)).ravel() / X.sum()
sizes = np.bincount(model.labels_)
figure, axes = plt.subplots(2, 3, figsize=(10.5, 5.2), sharex=True, layout="constrained")
for k, (ax, p, colour) in enumerate(zip(axes.flat, model.probabilities_, plot.COLOURS, strict=False)):
    top = np.argsort(p * np.log(p / q))[-8:]
    ax.barh(words[top], p[top], 0.75, color=colour, alpha=0.85)
    ax.plot(q[top], words[top], "o", color="white", markeredgecolor="0.2", markersize=5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_title(f"group {k}: {sizes[k]} documents")
for ax in axes[-1]:
    ax.set_xlabel("probability of the word")
plt.show()

# %%
# How sure? On the left, the probability that two documents are in one group; sharp blocks are groups that hardly any
# draw takes apart. On the right, ``uncertainty_`` of each document: doubt is with short texts, which have few words to
# tell by, and with those of two themes.

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), width_ratios=(1, 1.1), layout="constrained")
plot.plot_co_clustering(model.co_clustering_(), model.labels_, ax=left)
left.set_title("documents, group by group", pad=16)
length, two = np.asarray(X.sum(axis=1)).ravel(), second != truth
right.scatter(length[~two], model.uncertainty_[~two], s=14, color="0.6", label="one theme")
right.scatter(length[two], model.uncertainty_[two], color=plot.COLOURS[1], label="two themes")
right.set(xlabel="words in the document", ylabel="uncertainty_", ylim=(-0.02, None))
right.legend(frameon=False)
plt.show()

# %%
# New documents. ``predict_proba`` tells the group, ``novelty`` the probability that a text belongs to none of those
# seen: the last one jumbles all themes, as no group does. Words that the corpus does not have are not counted.

new = [
    "the nurse gave the patient a dose for the fever",
    "judge and jury heard the witness",
    "a long day, good work",
    "violin ship judge oven vaccine hedge choir cargo appeal compost pepper fever seed opera tide",
]
counts = counter.transform(new)
for text, p, novelty in zip(new, model.predict_proba(counts), model.novelty(counts), strict=True):
    print(f"group {p.argmax()} ({p.max():.2f}), novelty {novelty:.2f}: {text}")

# %%
# The same on real papers (300 of the NIPS conference, 5,000 words) is among the slow tests
# (``tests/test_real_data.py``): thirteen groups, of which the largest read like a programme of the conference, from
# reinforcement learning to analog chips. There the concentration of the Dirichlet prior of word probabilities matters:
# with 1.1, the default, there are some 55 narrow groups, with 4 a dozen, with 15 four; and chains that start apart do
# not agree on every paper.
