"""
Topics of documents, and how to tell whether they are right
===========================================================

Latent Dirichlet allocation explains every document as a mixture of topics, every topic as a distribution over words.
Here the truth is known, so each picture can be checked: topics are matched to those that wrote the texts, and
held-out documents say how many topics there are.
"""

# %%
# Six themes of ten words, some of which belong to two: a ``scale`` is in the kitchen and in the orchestra, a ``bar``
# in court and in music. Each of 800 documents mixes themes and common words; in the course of twelve years the garden
# grows, and the harbour dies. 200 documents more are kept for tests.

import matplotlib.pyplot as plt
import numpy as np

import weald
from weald import plot
from weald.topics.matching import match_topics

THEMES = {
    "kitchen": "oven butter scale flour garlic onion recipe salt soup bake",
    "harbour": "ship harbour storm sail captain tide anchor crew cargo deck",
    "garden": "garden soil rose storm seed prune compost weed bulb hedge",
    "orchestra": "violin concert melody scale bar piano rhythm choir opera chord",
    "hospital": "doctor patient nurse fever surgery clinic salt dose therapy heart",
    "court": "judge law bar trial witness jury verdict court appeal crime",
}
COMMON = "time people day year new good long great small work place way"
words = sorted({word for theme in [*THEMES.values(), COMMON] for word in theme.split()})

phi = np.zeros((len(THEMES), len(words)))
for k, theme in enumerate(THEMES.values()):
    for text, share in ((theme, 0.75), (COMMON, 0.25)):
        p = 1 / np.arange(2, 2 + len(text.split()))
        phi[k, [words.index(word) for word in text.split()]] += share * p / p.sum()

rng = np.random.default_rng(0)
years = rng.uniform(2000, 2012, size=1000)
trend = np.ones((1000, len(THEMES)))
trend[:, 1], trend[:, 2] = np.interp(years, (2002, 2008), (2, 0.1)), np.interp(years, (2002, 2010), (0.2, 2.5))
theta = rng.gamma(0.2 * trend)
theta /= theta.sum(axis=1, keepdims=True)
X = np.array([rng.multinomial(n, p) for n, p in zip(rng.integers(20, 90, size=1000), theta @ phi, strict=True)])
train, test = X[:800], X[800:]

# %%
# A fit with six topics. Topics are numbered by size; the table shows their words, bars and numbers their probabilities.

lda = weald.LDA(n_topics=6, inference="online-vb", tol=1e-4, random_state=0).fit(train)
print(lda.status_)
plot.plot_topic_words(lda, words, n_words=8, columns=3)
plt.show()

# %%
# Which of them is which of the themes? `match_topics` pairs the two sets at the least total distance (Hellinger: 0 for
# the same distribution, 1 for no word in common). Two runs are compared in the same way, when their topics come in
# another order.

matching = match_topics(phi, lda)
for theme, k, distance in zip(THEMES, matching.order, matching.distances, strict=True):
    print(f"{theme:10s} topic {k}   distance {distance:.2f}   {', '.join(lda.topics_(4, words)[k])}")

# %%
# The Hinton diagram shows which words topics share: squares beside the diagonal. Left the truth, right what was found
# from 800 documents, in the order of the truth.

figure, axes = plt.subplots(1, 2, figsize=(7.4, 5.2), layout="constrained")
plot.plot_hinton(phi, words, n_words=4, ax=axes[0])
plot.plot_hinton(lda.components_[matching.order], words, n_words=4, ax=axes[1])
axes[0].set_title("truth")
axes[1].set_title("found")
plt.show()

# %%
# How many topics? Document completion draws half of the tokens of each held-out document, infers its mixture from
# them, and predicts the others. The perplexity of the prediction is the number of equally probable words that would
# be as hard to guess. It falls until there are as many topics as there are themes, and more topics hardly help.
# The same halves are used for every model. Left-to-right evidence of whole documents says the same.

numbers = (2, 3, 4, 5, 6, 7, 8, 12)
models = {K: weald.LDA(n_topics=K, inference="online-vb", random_state=0).fit(train) for K in numbers}
figure, ax = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
for method, colour in (("completion", plot.COLOURS[0]), ("left-to-right", plot.COLOURS[1])):
    found = [model.perplexity(test, method=method, n_particles=5) for model in models.values()]
    ax.plot(numbers, found, "o-", color=colour, label=method)
ax.axvline(len(THEMES), color=plot.FAINT, linewidth=1, linestyle=(0, (4, 3)))
ax.set(xlabel="number of topics", ylabel="perplexity of held-out documents")
ax.legend(frameon=False)
plt.show()

# %%
# Coherence asks something else: do the top words of a topic occur together? Topics that mix themes are less coherent.

for K in (3, 6, 12):
    print(f"{K:2d} topics: mean NPMI {models[K].coherence_(test, n_words=6).mean():.2f}")

# %%
# A map of the topics, by the distance between their words; what the topics of a few documents are; and how topics rise
# and fall. The garden grows, the harbour dies.

plot.plot_topic_map(lda, words)
plt.show()

# %%
plot.plot_mixtures(lda.transform(test[:8]), [" ".join(np.array(words)[np.argsort(-x)[:3]]) for x in test[:8]])
plt.show()

# %%
plot.plot_topics_over_time(lda.transform(X), years, lda, words, n_periods=12)
plt.show()
