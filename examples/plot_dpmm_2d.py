"""
Collapsed Gibbs sampling finds the number of clusters
=====================================================

A thousand points in five clusters, and a sampler that starts from two. In a sweep of collapsed Gibbs sampling each
point leaves its cluster and joins one anew: an old one in proportion to its size and to how well it predicts the
point, or one of its own. No number of clusters is given; it follows.
"""

# %%
# The data. Their five clusters are never shown to the sampler.

import matplotlib.pyplot as plt
import numpy as np

import weald
from weald import plot
from weald.assign import Rows
from weald.consensus import canonical
from weald.families import FullGaussian
from weald.inference.run import run
from weald.mixtures.collapsed import CollapsedKernel
from weald.partitions import DirichletProcess

rng = np.random.default_rng(4)
centres = np.array([[-5.0, 3.0], [0.0, 4.5], [5.0, 2.0], [2.5, -3.5], [-4.0, -3.5]])
shapes = np.array([[[1.2, 0.5], [0.0, 0.7]], [[0.9, -0.5], [0.0, 0.8]], [[0.8, 0.0], [0.6, 1.1]]])[[0, 1, 2, 0, 1]]
z = rng.integers(5, size=1000)
X = centres[z] + np.einsum("nij,nj->ni", shapes[z], rng.standard_normal((1000, 2)))

# %%
# A kernel has two methods: ``init`` makes a state, ``step`` the next one. ``first`` gives the labels to start from,
# here the two sides of a line. Two kernels: plain Gibbs sampling, one point after the other, and the same with ten
# split-merge moves in each sweep, which is what ``DPMixture`` uses. ``run`` applies them; the concentration is fixed at
# 1.

rows = Rows(X, FullGaussian.from_data(X, n_components=3))
prior = DirichletProcess(concentration=1.0, shape=None)


def halves(rng):
    return (X[:, 0] > 0).astype(int)


names = {0: "Gibbs sampling alone", 10: "with split-merge moves"}
traces, states = {}, {}
for n_moves in names:
    kernel = CollapsedKernel(rows, prior, n_moves=n_moves, first=halves)
    chains = run(kernel, key=np.uint64(1), sweeps=200, chains=4, collect=lambda state: {"z": state.z})
    traces[n_moves] = np.array([chain.stats["n_clusters"] for chain in chains])
    states[n_moves] = [chain.draws["z"] for chain in chains]
    print(f"{names[n_moves]} after 200 sweeps: {traces[n_moves][:, -1].astype(int).tolist()} clusters")

# %%
# Gibbs sampling alone gets there, but needs time: a new cluster begins with a single point, and must grow while the old
# one still claims all its points. Here 200 sweeps suffice; with clusters that overlap more, or in more columns,
# thousands may not. A split-merge move divides a whole cluster, or joins two, at once.

figure, axes = plt.subplots(2, 3, figsize=(10.5, 6.6), sharex=True, sharey=True, layout="constrained")
for line, n_moves in zip(axes, names, strict=True):
    for ax, sweep in zip(line, (1, 10, 100), strict=True):
        labels = canonical(states[n_moves][1][sweep - 1], "size")
        plot.plot_clusters(X, labels, ax=ax, names=("", ""))
        ax.set_title(f"sweep {sweep}: {labels.max() + 1} clusters")
    line[0].set_ylabel(names[n_moves])
plt.show()

# %%
# The number of clusters against sweeps, four chains of each. In the end both hover at five, and a little above: that a
# point or two make a cluster of their own is improbable, not impossible, and the posterior says so.

figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.6), sharex=True, sharey=True, layout="constrained")
for ax, (n_moves, trace) in zip(axes, traces.items(), strict=True):
    for i, (path, colour) in enumerate(zip(trace, plot.COLOURS, strict=False)):
        steps = np.append(2, path) + 0.07 * (i - 1.5)  # side by side
        ax.step(np.arange(steps.size), steps, where="post", color=colour, linewidth=1.2)
    ax.axhline(5, color="0.25", linewidth=0.8, linestyle=(0, (5, 4)), zorder=0)
    ax.set_xscale("symlog", linthresh=10, linscale=1.6)
    ax.set_xticks([0, 2, 4, 6, 8, 10, 20, 50, 100, 200], ["start", "2", "4", "6", "8", "10", "20", "50", "100", "200"])
    ax.minorticks_off()
    ax.set(xlabel="sweep", xlim=(0, 200), title=names[n_moves])
axes[0].set_ylabel("number of clusters")
plt.show()

# %%
# All of this in three lines. Chains start from different numbers of clusters, hyperparameters are learnt, and many
# draws are summed up by one partition and what is uncertain about it.

model = weald.DPMixture(draws=400, warmup=100, random_state=0).fit(X)
print(model.status_)
print(f"{model.n_components_} clusters of {np.bincount(model.labels_)} points, 95 % {model.n_components_interval_}")
