"""
A dendrogram that knows where to be cut
=======================================

Hierarchical clustering merges rows step by step, and leaves the question of where to stop to the reader. In the
Bayesian form each merger has a probability: that all rows below it are one cluster, with the parameters of clusters and
all ways to split the tree below it integrated out. The tree is cut where that probability falls below one half.
"""

# %%
# 178 wines, 13 chemical measurements each. The cultivars are known, but the model never sees them.

import matplotlib.pyplot as plt
import numpy as np
from scipy.cluster.hierarchy import dendrogram

import weald
from weald import plot
from weald.datasets import load_demo

wine = load_demo()
n = len(wine.X)
tree = weald.BayesianHierarchicalClustering(covariance="diag").fit(wine.X)
print(f"{tree.n_clusters_} clusters of {np.bincount(tree.labels_).tolist()} wines; log p(X) > {tree.log_evidence_:.1f}")

# %%
# ``linkage_`` is scipy's format, so scipy draws it. A height h is minus the log of a merge probability, and the cut is
# at log 2; drawn here are log odds against the merger, log(exp(h) - 1), on an axis that is compressed far from even
# odds. Mergers above the cut are grey and carry their probability. Below each leaf stands its cultivar.


def drawn_at(log_odds):
    return np.arcsinh(log_odds / 3.0)


linkage, h = tree.linkage_.copy(), tree.linkage_[:, 2]
linkage[:, 2] = drawn_at(h + np.log(-np.expm1(-h)))
floor = linkage[:, 2].min() - 0.25
linkage[:, 2] -= floor
cut = drawn_at(0.0) - floor

big = np.argsort(-np.bincount(tree.labels_))  # colours go by size
cluster = np.append(np.argsort(big)[tree.labels_], np.full(n - 1, -1))
for node, left in enumerate(linkage[:, 0].astype(int), start=n):
    cluster[node] = cluster[left] if h[node - n] <= np.log(2) else -1
colours = [*plot.COLOURS[: tree.n_clusters_], "0.55"]

figure, (top, strip) = plt.subplots(2, 1, figsize=(10.5, 6.4), height_ratios=(18, 1), sharex=True, layout="constrained")
with plt.rc_context({"lines.linewidth": 1.2}):
    links = dendrogram(linkage, ax=top, no_labels=True, link_color_func=lambda node: colours[cluster[node]])
top.axhline(cut, color="black", linewidth=0.8, linestyle=(0, (5, 4)), zorder=0)
top.text(5 * n, cut + 0.06, "cut here: even odds", ha="center", fontsize="small")

for x, y in zip(links["icoord"], links["dcoord"], strict=True):
    if y[1] > cut:
        p = tree.merge_probability_[np.argmin(abs(linkage[:, 2] - y[1]))]
        text = f"{p:.2f}" if p >= 0.01 else f"$10^{{{round(np.log10(p))}}}$"
        box = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}
        at = {"ha": "center", "va": "bottom", "fontsize": "small", "color": "0.25", "bbox": box}
        top.text((x[1] + x[2]) / 2, y[1] + 0.09, text, **at)

ticks = {"0.999999": -np.log(1e6), "0.99": -np.log(99), "0.5": 0.0, "0.01": np.log(99)}
ticks |= {f"$10^{{-{k}}}$": k * np.log(10) for k in (10, 50, 250)}
top.set_yticks(drawn_at(np.array(list(ticks.values()))) - floor, list(ticks))
top.set(ylabel="probability that all wines below are one cluster", ylim=(0, linkage[-1, 2] + 0.5))
top.spines[["top", "right", "bottom"]].set_visible(False)

cultivars = np.array(["#1b1b1b", "#8c8c8c", "#d9d9d9"])
strip.bar(np.arange(5, 10 * n, 10), 1.0, width=10, color=cultivars[wine.z[links["leaves"]]])
strip.set(ylim=(0, 1), xticks=[], yticks=[], ylabel="cultivar")
strip.yaxis.label.set(rotation=0, ha="right", va="center")
strip.spines[:].set_visible(False)
plt.show()

# %%
# Large clusters are long branches: typical wines merge first, odd ones join late. Small groups that the tree would not
# merge, such as the few wines at the right of the largest cluster, are worth a second look: how much, the probability
# of the merger says.
#
# Trees can be compared. ``log_evidence_`` is a lower bound of log p(X): the sum over all partitions that the tree can
# be cut into. Full covariances describe these wines about as well with fewer, wider clusters; spheres do not.

for covariance in ("full", "diag", "spherical"):
    model = weald.BayesianHierarchicalClustering(covariance=covariance).fit(wine.X)
    print(f"{covariance:>9}: log p(X) > {model.log_evidence_:8.1f}   {model.n_clusters_:2d} clusters")

# %%
# New wines go where they fit best, and ``partial_fit`` grows the tree by them.

model = weald.BayesianHierarchicalClustering(covariance="diag").fit(wine.X[::2])
print("predicted:", model.predict(wine.X[1:12:2]))
print("rows in the tree:", len(model.partial_fit(wine.X[1::2]).linkage_) + 1)
