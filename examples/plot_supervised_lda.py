"""
Topics that explain a rating
============================

What a review is about and how much it was liked are told by the same words. Plain topic models spend their topics on
what there is most of, here genres. Supervised LDA learns topics and the rating together, says how much each topic is
worth, and how sure it is of every prediction.
"""

# %%
# 300 short reviews whose truth is known. Two words in three are of the genre; the rest praise or complain, as the
# hidden liking of the reviewer has it, or are common. A rating from 1 to 10 follows the liking, with noise.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import RidgeCV

import weald
from weald import plot
from weald.exceptions import StatusWarning

GENRES = {
    "space": "space ship planet alien laser crew star orbit robot galaxy",
    "crime": "police murder detective gun gang jail witness thief clue court",
    "romance": "love wedding kiss heart paris letter dance couple summer dress",
    "war": "war soldier army battle general tank enemy trench bomb medal",
}
PRAISE = "superb moving funny brilliant charming clever tender vivid"
COMPLAINT = "dull noisy silly tired clumsy endless flat wooden"
COMMON = "film scene story actor director music end plot"


def words_of(text, n, rng):
    words = text.split()
    p = 1 / np.arange(2, len(words) + 2)
    return rng.choice(words, size=n, p=p / p.sum())


def write(rng):
    """A review and its rating."""
    liking, length = rng.beta(1.2, 1.2), rng.integers(15, 80)
    genre, said = rng.choice(list(GENRES), p=[0.4, 0.3, 0.2, 0.1]), rng.binomial(length, 0.25)
    praise, common = rng.binomial(said, liking), rng.binomial(length, 0.15)
    parts = [(GENRES[genre], length - said - common), (PRAISE, praise), (COMPLAINT, said - praise), (COMMON, common)]
    text = " ".join(np.concatenate([words_of(source, max(n, 0), rng) for source, n in parts]))
    return text, 1 + 9 * liking + rng.normal(0, 0.7)


rng = np.random.default_rng(0)
texts, ratings = zip(*(write(rng) for _ in range(600)), strict=True)
counter = CountVectorizer()
X, y = counter.fit_transform(texts), np.array(ratings)
train, test = slice(0, 300), slice(300, 600)
print(f"{y[0]:.1f}: {texts[0]}")

# %%
# The fit, and what a regression on the topics of a plain LDA makes of the same reviews. Chains of topics that start
# apart seldom agree in everything, and the status says so; predictions average over all of them.

slda = weald.SupervisedLDA(n_topics=8, random_state=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", StatusWarning)
    slda.fit(X[train], y[train])
print(slda.status_)
lda = weald.LDA(n_topics=8, inference="online-vb", random_state=0).fit(X[train])
ridge = RidgeCV(np.logspace(-3, 3, 13)).fit(lda.transform(X[train]), y[train])
print(f"R^2 on 300 new reviews: SupervisedLDA {slda.score(X[test], y[test]):.2f},", end=" ")
print(f"LDA, then ridge {ridge.score(lda.transform(X[test]), y[test]):.2f}")

# %%
# ``coef_`` is the rating of a review that is wholly of one topic; topics are numbered by it. Bars are 95 % intervals of
# the posterior, over all chains. The topics at the ends are the praise and the complaint; genres lie near the mean
# rating (line), for they say nothing of it. Coefficients reach beyond the scale of 1 to 10: no review is praise alone.

names = counter.get_feature_names_out()
w = slda.posterior_.flat("w")
low, high = np.quantile(w, [0.025, 0.975], axis=0)
figure, ax = plt.subplots(figsize=(10.5, 4), layout="constrained")
for k, (words, share) in enumerate(zip(slda.topics_(7, names), slda.topic_sizes_, strict=True)):
    ax.plot([low[k], high[k]], [k, k], color=plot.COLOURS[0], linewidth=2, alpha=0.6)
    ax.scatter(slda.coef_[k], k, s=900 * share, color=plot.COLOURS[0], zorder=3)
    ax.annotate(" ".join(words), (1.02, k), xycoords=("axes fraction", "data"), va="center", fontsize=9)
ax.axvline(y[train].mean(), color="0.7", linewidth=1)
ax.set(xlabel="rating of a review wholly of the topic (size: share of the words)", ylabel="topic")
ax.set(yticks=range(8), ylim=(7.6, -0.6))
plt.show()

# %%
# Predictions of new reviews with ``predict(X, return_std=True)``. The deviation holds the noise of ratings, what is
# unknown of the topics of the review, and what is unknown of the model: short reviews, which may not say at all how
# they were liked, are less sure.

mean, sd = slda.predict(X[test], return_std=True)
length = np.asarray(X[test].sum(axis=1)).ravel()
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.errorbar(y[test], mean, 1.96 * sd, fmt="o", markersize=3, color=plot.COLOURS[0], ecolor="0.85", zorder=2)
left.plot([0, 11], [0, 11], color="0.4", linewidth=1, zorder=3)
inside = np.mean(np.abs(mean - y[test]) < 1.96 * sd)
left.set(xlabel="rating", ylabel="predicted, with 95 % intervals", title=f"{inside:.0%} of ratings inside")
right.scatter(length, sd, s=12, color=plot.COLOURS[1])
right.axhline(slda.sigma_, color="0.4", linewidth=1)
right.annotate("noise alone", (length.max(), slda.sigma_ - 0.01), ha="right", va="top", color="0.4")
right.set(xlabel="words of the review", ylabel="standard deviation of the prediction", ylim=(slda.sigma_ - 0.1, None))
plt.show()
