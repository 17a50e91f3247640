"""
Naive Bayes with few labels
===========================

Naive Bayes is a mixture whose labels are known. Where only some are, ``y = -1`` marks the rest, and the model infers
them: rows without a label still say what the columns of each class look like. Whether that helps is a question about
the model, and this example shows both answers.
"""

# %%
# Accuracy on rows held out, with the labelled rows alone and with all rows, some of them labelled.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import weald
from weald import plot
from weald.datasets import make_counts

N_TEST, REPEATS = 600, 6
N_LABELS = np.array([1, 2, 4, 8, 16, 32, 64])  # for each class


def curve(X, y, family):
    """(2, sizes): mean accuracy without and with the rows whose class is unknown."""
    accuracy = np.zeros((2, N_LABELS.size))
    for seed in range(REPEATS):
        order = np.random.default_rng(seed).permutation(len(y))
        test, pool = order[:N_TEST], order[N_TEST:]
        for i, n in enumerate(N_LABELS):
            known = np.concatenate([pool[y[pool] == c][:n] for c in np.unique(y)])
            partly = np.where(np.isin(pool, known), y[pool], -1)
            alone = weald.NaiveBayes(family).fit(X[known], y[known])
            together = weald.NaiveBayes(family).fit(X[pool], partly)
            accuracy[:, i] += alone.score(X[test], y[test]), together.score(X[test], y[test])
    return accuracy / REPEATS


# %%
# On the left, documents drawn from the model itself: unlabelled rows are worth almost as much as labelled ones. On
# the right, images of digits with a Poisson rate for each pixel: pixels are *not* independent given the digit, and
# once a few labels per digit are there, the unlabelled rows pull the classes towards groups that fit the wrong model
# better. Unlabelled data are evidence about the model as much as about the labels.

simulated = make_counts(n=2200, k=5, vocabulary=60, length=12, rng=0, concentration=0.5)
digits = load_digits()
cases = {
    "documents, model true (multinomial)": (simulated.X, simulated.z, "multinomial"),
    "digits, model approximate (poisson)": (digits.data, digits.target, "poisson"),
}
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for ax, (title, (X, y, family)) in zip(axes, cases.items(), strict=True):
    alone, together = curve(X, y, family)
    ax.plot(N_LABELS, alone, "o-", color=plot.COLOURS[1], linewidth=2, label="labelled rows only")
    ax.plot(N_LABELS, together, "o-", color=plot.COLOURS[0], linewidth=2, label="and unlabelled rows (y = -1)")
    ax.set(title=title, xlabel="labels for each class", xscale="log", xticks=N_LABELS, xticklabels=N_LABELS)
    ax.minorticks_off()
axes[0].set_ylabel("accuracy on 600 held-out rows")
axes[0].legend(frameon=False, loc="lower right")
plt.show()
