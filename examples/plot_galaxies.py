"""
How many clusters of galaxies?
==============================

The velocities of 82 galaxies say how far away they are. Do galaxies gather, and in how many groups? Answers in the
literature run from three to nine, and this example shows why: the number of clusters is the one thing that these data
leave to the prior. Other answers they give by themselves.
"""

# %%
# The same mixture under three priors of the partition. A Dirichlet process always expects a few small clusters more; a
# Pitman-Yor process expects many; a mixture of finite mixtures believes in a fixed number that is unknown. The
# likelihood is the same for all: within a cluster velocities scatter by about 1,500 km/s, and its mean may be anywhere.

import matplotlib.pyplot as plt
import numpy as np

import weald
from weald import plot
from weald.consensus import co_clustering_with
from weald.datasets import load_galaxies
from weald.families import SphericalGaussian
from weald.partitions import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor

X = load_galaxies()[:, None]  # in 1,000 km/s
family = SphericalGaussian.from_data(X, kappa=0.01, nu=4.0, psi=2.0 * 1.5**2)
priors = {"dp": "Dirichlet process", "pitman-yor": "Pitman-Yor", "mfm": "finite mixtures"}
colours = dict(zip(priors, plot.COLOURS, strict=False))
fits = {
    prior: weald.DPMixture(family=family, prior=prior, draws=900, warmup=100, random_state=0).fit(X) for prior in priors
}
for prior, model in fits.items():
    print(f"{prior}: {model.status_}")

# %%
# **What depends on the prior**: the number of clusters. Each posterior (bars, dark within ``n_components_interval_``)
# sits where its prior (line) and the data meet. So report the interval with the prior beside it. ``partition_``, which
# sums up the draws, has fewer clusters than most of them: those that come and go with the draws have no place in it.

rng = np.random.default_rng(0)
drawn = {
    "dp": [DirichletProcess(a) for a in rng.gamma(1, 1, 100)],  # the default hyperpriors
    "pitman-yor": [PitmanYor(a, s) for a, s in zip(rng.gamma(1, 1, 100), rng.random(100), strict=True)],
    "mfm": [MixtureOfFiniteMixtures()],
}
figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.4), sharex=True, sharey=True, layout="constrained")
for ax, (prior, model) in zip(axes, fits.items(), strict=True):
    values, p = model.n_components_posterior_
    low, high = model.n_components_interval_
    before = np.mean([np.exp(one.log_n_clusters(len(X))) for one in drawn[prior]], axis=0)
    shade = np.where((values >= low) & (values <= high), 0.95, 0.35)
    for k, height, alpha in zip(values, p, shade, strict=True):
        ax.bar(k, height, 0.8, color=colours[prior], alpha=alpha)
    ax.plot(np.arange(1, before.size + 1), before, ".-", color="0.25", linewidth=1, markersize=4)
    ax.set_title(f"{priors[prior]}: {low} to {high}, partition_ has {model.n_components_}")
    ax.set(xlabel="number of clusters", xlim=(0.4, 20.6), xticks=range(2, 21, 2))
axes[0].set_ylabel("probability")
plt.show()

# %%
# **What does not**: the density. A draw from the posterior is a whole density: parameters of the clusters given the
# partition, and weights from a Dirichlet distribution whose parameters are the sizes of clusters, and the concentration
# for clusters never seen. The mean is what ``score_samples`` returns, the density of the next galaxy. Means under the
# other priors lie on top of each other, far inside the band: the data are few, and it is wide.


def densities(model, grid, n_draws=400):
    """(n_draws, grid): densities drawn from the posterior under a Dirichlet process."""
    rng, T = np.random.default_rng(0), family.sufficient(X)
    Z, alpha = model.posterior_.flat("z"), model.posterior_.flat("concentration")
    found = []
    for t in np.linspace(0, len(Z) - 1, n_draws).astype(int):
        S = np.stack([T[Z[t] == c].sum(axis=0) for c in range(Z[t].max() + 1)] + [np.zeros(family.width)])
        w = rng.dirichlet(np.append(S[:-1, -1], alpha[t]))  # the last column of T counts rows
        scores = family.sufficient(grid) @ family.sample_eta(S, rng).T + family.log_base(grid)[:, None]
        found.append(np.exp(scores) @ w)
    return np.array(found)


dp = fits["dp"]
grid = np.linspace(6, 38, 400)[:, None]
low, high = np.quantile(densities(dp, grid), [0.025, 0.975], axis=0)
place = np.argsort(np.argsort(dp.means_.ravel()))[dp.labels_]  # clusters in the order of their velocities

figure, ax = plt.subplots(figsize=(10.5, 4.4), layout="constrained")
ax.hist(X[:, 0], np.arange(8, 36, 1), density=True, color="0.88", edgecolor="white")
ax.fill_between(grid[:, 0], low, high, color=colours["dp"], alpha=0.25, linewidth=0, label="95 % of densities drawn")
for prior, model in fits.items():
    look = {"linewidth": 2.2} if prior == "dp" else {"linewidth": 1.8, "linestyle": (0, (1, 1.2))}
    ax.plot(grid[:, 0], np.exp(model.score_samples(grid)), color=colours[prior], label=f"mean, {priors[prior]}", **look)
ax.vlines(X[:, 0], -0.016, -0.004, color=np.array(plot.palette(dp.n_components_))[place], linewidth=1.4)
ax.set(xlabel="velocity (1,000 km/s)", ylabel="density", xlim=(6, 38), ylim=(-0.02, None))
ax.set_title("82 galaxies; ticks are coloured by partition_")
ax.legend(frameon=False)
plt.show()

# %%
# Nor do pairs of galaxies depend much on it: on the right, who is in one cluster with two galaxies of the bulk. The
# nearest galaxies, on the left of the rug, stand apart for certain. In the bulk two clusters are probable, and where
# one ends and the other begins is not: their blocks are pale and run into each other.

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), width_ratios=(1, 1.15), layout="constrained")
plot.plot_co_clustering(dp.co_clustering_(), place, ax=left)
left.set_title("Dirichlet process: galaxies by velocity", pad=16)
for prior, model in fits.items():
    for i, shape in ((25, "-"), (62, "--")):
        together = np.delete(co_clustering_with(model.posterior_.flat("z"), i), i)
        words = None if i == 62 else priors[prior]
        right.plot(np.delete(X[:, 0], i), together, shape, color=colours[prior], linewidth=1.6, label=words)
for i, at in ((25, 18.6), (62, 23.1)):
    right.text(at, 0.84, f"with the galaxy\nat {X[i, 0]:.1f}", ha="center", fontsize="small")
right.set(xlabel="velocity (1,000 km/s)", ylim=(0, 1), xlim=(15, 31))
right.set_title("the same for two galaxies of the bulk, under three priors")
right.legend(frameon=False, fontsize="small", loc="upper right")
plt.show()

# %%
# Which galaxies are in doubt, and how far does the posterior spread around the partition that stands for it?
# ``partition_ball_`` holds the draws nearest to it that make up 95 %; ``upper`` and ``lower`` are the coarsest and the
# finest of them.

doubtful = np.sort(np.argsort(-dp.uncertainty_)[:5])
print("least sure of their cluster:", ", ".join(f"{v:.2f}" for v in X[doubtful, 0]))
ball = dp.partition_ball_
print(f"95 % of draws within {ball.radius:.2f} nats: {ball.upper.max() + 1} to {ball.lower.max() + 1} clusters")
