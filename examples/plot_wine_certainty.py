"""
Groups in a table, and how sure
===============================

178 wines were analysed in a laboratory: 13 chemical measurements each. Are there groups among them? And which bottles
would we rather taste before we believe the label that the model gives them?
"""

# %%
# Fit by Gibbs sampling, so that everything below is averaged over the posterior: not one set of clusters, but all
# that the data leave plausible. The status says whether the chains may be trusted.

import matplotlib.pyplot as plt
import numpy as np

import weald
from weald import plot
from weald.datasets import load_demo

wine = load_demo()
mix = weald.Mixture(n_components=3, covariance="diag", inference="gibbs", random_state=0).fit(wine.X)
proba = mix.predict_proba(wine.X)
print(mix.status_)

# %%
# Strong colours are certain, pale ones are not. The rows with the smallest margin between the best and the second
# best cluster are the ones to look at next.

ordered = np.sort(proba, axis=1)
margin = ordered[:, -1] - ordered[:, -2]
next_rows = np.argsort(margin)[:8]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), width_ratios=(1.25, 1), layout="constrained")
plot.plot_clusters(wine.X, mix.predict(wine.X), proba, mix, ax=left)
Y = plot.project(wine.X)(wine.X[next_rows])
left.scatter(*Y.T, s=110, facecolors="none", edgecolors="black", linewidths=1.1, zorder=5)
left.set_title("circled: the eight least certain bottles")

# %%
# Is the model right to doubt these? The cultivars are known, though the model never saw them. Sort the bottles by
# their margin: the errors sit among those that the model itself called uncertain.

named = np.array([np.bincount(wine.z[mix.predict(wine.X) == k]).argmax() for k in range(3)])
wrong = named[mix.predict(wine.X)] != wine.z
rank = np.argsort(margin)
right.plot(np.arange(1, len(rank) + 1), margin[rank], color=plot.COLOURS[0], linewidth=2)
where = np.flatnonzero(wrong[rank])
right.scatter(where + 1, margin[rank][where], color=plot.COLOURS[3], zorder=3, label="not in its cultivar's cluster")
right.set(xlabel="bottles, least certain first", ylabel="margin between best and second cluster", xscale="log")
right.set_ylim(0, 1.04)
right.set_title(f"{wrong.sum()} of {len(rank)} bottles differ from their cultivar")
right.legend(loc="lower right", frameon=False)
plt.show()
