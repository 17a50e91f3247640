"""
Newsgroups: a stream of documents, and the number of topics
===========================================================

Messages to newsgroups arrive one after the other. Online variational Bayes learns topics from them batch by batch,
and the perplexity of messages that it has not seen says how far it has come. A hierarchical Dirichlet process then
finds the number of topics, too.
"""

# %%
# With the 20 Newsgroups in the folder ``WEALD_DATA`` this page shows them: ``20news/20news_bow.npz`` holds the counts
# of words as the arrays of a sparse matrix, the vocabulary, and the group of each message. Otherwise it shows
# messages made up in their likeness: each is mostly about its group's theme, drifts to another, and shares everyday
# words.

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

import weald
from weald import plot

FILE = Path(os.environ.get("WEALD_DATA", "nowhere")) / "20news" / "20news_bow.npz"
GROUPS = (
    "atheism graphics ms-windows pc-hardware mac-hardware windows-x forsale autos motorcycles baseball hockey crypt "
    "electronics med space christian guns mideast politics religion"
)
THEMES = {
    "autos": "car engine dealer miles ford drive oil price wheel brake clutch gear road tyre",
    "hockey": "game team hockey season play goal score player nhl league puck ice coach win",
    "space": "space orbit launch shuttle nasa moon satellite mission earth rocket solar lunar probe fuel",
    "med": "doctor disease patient treatment drug medical pain diet health symptom blood therapy dose cancer",
    "graphics": "image graphics file format color jpeg gif program display bit pixel screen window software",
    "crypt": "key encryption chip clipper security secret privacy government algorithm public phone escrow agency",
    "religion": "god jesus bible church faith christian belief prayer scripture sin heaven truth lord spirit",
    "forsale": "sale price offer shipping sell condition email box disk card monitor cable manual drive",
}
EVERYDAY = "people think time know good way right make want question problem point work thing help year read"


def zipf(text, n, rng):
    words = text.split()
    p = 1 / np.arange(1, len(words) + 1)
    return rng.choice(words, n, p=p / p.sum())


def made_up(n, rng):
    """Messages in the likeness of newsgroups: half of the words are of the group's theme, more or less."""
    names = list(THEMES)
    y = rng.integers(len(names), size=n)
    texts = []
    for group in y:
        n_own, n_other, n_everyday = rng.multinomial(rng.integers(25, 120), rng.dirichlet([2.0, 0.6, 1.4]))
        other = THEMES[rng.choice(names)]
        words = [
            zipf(THEMES[names[group]], n_own, rng),
            zipf(other, n_other, rng),
            zipf(EVERYDAY, n_everyday, rng),
        ]
        texts.append(" ".join(np.concatenate(words)))
    counter = CountVectorizer()
    return counter.fit_transform(texts), counter.get_feature_names_out(), y, names


rng = np.random.default_rng(0)
if FILE.exists():
    with np.load(FILE) as data:
        X = sparse.csr_array(
            (data["data"].astype(np.int32), data["indices"].astype(np.int32), data["indptr"]), data["shape"]
        )
        words, y, groups, K = data["vocab"], data["y"].astype(int), GROUPS.split(), 20
else:
    X, words, y, groups = made_up(1500, rng)
    K = len(groups) + 1
X, y = X[order := rng.permutation(X.shape[0])], y[order]
n_test = X.shape[0] // 10
test, train = X[:n_test], X[n_test:]
print(f"{train.shape[0]:,} messages to learn from, {n_test:,} kept back, {X.shape[1]:,} words, {X.sum():,} tokens")

# %%
# Batch by batch. ``partial_fit`` takes each batch once, so the whole corpus need never be in memory; the first makes
# the topics to begin with, and should be large. Perplexity is that of the kept-back messages: half of the words of
# each tell its topics, and the other half is predicted. Below what a single topic reaches, the frequencies of words
# alone, topics are worth something.

baseline = weald.LDA(1, inference="online-vb").fit(train).perplexity(test)

lda = weald.LDA(K, inference="online-vb", random_state=0)
n = train.shape[0]
ends = np.linspace(min(2000, n // 3), n, 25, dtype=int)
curve = []
for start, end in zip([0, *ends], ends, strict=False):
    lda.partial_fit(train[start:end], n_documents=n)
    curve.append(lda.perplexity(test))

figure, ax = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
ax.plot(ends, curve, "o-", color=plot.COLOURS[0], markersize=4)
ax.axhline(baseline, color="0.45", linestyle=(0, (4, 3)))
ax.annotate("frequencies of words alone", (n, baseline), (0, -4), textcoords="offset points", ha="right", va="top")
ax.set(xlabel="messages seen", ylabel="held-out perplexity", ylim=(0.95 * min(curve), None))
plt.show()

# %%
# What the topics are: bars are probabilities, percentages shares of all words.

plot.plot_topic_words(lda, words, 8)
plt.show()

# %%
# The Hinton diagram shows which words topics share: the area of a square is the probability of the word in the topic.

plot.plot_hinton(lda, words, 2)
plt.show()

# %%
# Nobody told the model which group a message came from. The mean proportions of topics in each group say what it made
# of them; topics are named by the two words that set them apart best.

theta = lda.transform(X)
G = np.stack([theta[y == g].mean(axis=0) for g in range(len(groups))])
top = [" ".join(pair) for pair in lda.topics_(2, words, by="lift")]
order = np.argsort(G.argmax(axis=0), kind="stable")
figure, ax = plt.subplots(figsize=(0.42 * K + 2.4, 0.3 * len(groups) + 2.4), layout="constrained")
ax.imshow(G[:, order], cmap="Greens", vmin=0, aspect="auto")
ax.set_xticks(range(K), [f"{k} {top[k]}" for k in order], rotation=60, ha="right", fontsize="small")
ax.set_yticks(range(len(groups)), groups)
ax.spines[:].set_visible(False)
ax.tick_params(length=0)
plt.show()

# %%
# How many topics? ``HDP`` takes no number. Stochastic variational inference is its online form; Gibbs sampling, the
# default, takes longer and gives the number with an interval.

hdp = weald.HDP(inference="svi", random_state=0).fit(train)
print(hdp.status_)
print(
    f"{hdp.n_topics_} topics; held-out perplexity {hdp.perplexity(test):,.0f}, with {K} topics given {curve[-1]:,.0f}"
)
plot.plot_topic_words(hdp, words, 6)
plt.show()
