"""
Three samplers, one posterior
=============================

``DPMixture`` draws partitions in three ways: ``"collapsed"`` moves one row after the other, ``"tree-guided"`` whole
branches of a tree over the rows, ``"parallel"`` all rows at once given weights and parameters. They differ in what a
sweep costs and in how fast chains forget where they started. What they sample is the same law, and when chains have
not yet reached it, ``status_`` says so.
"""

# %%
# Six clusters, two pairs of which touch, and 300 rows; four chains of each sampler, from different starts. The parallel
# sampler is made for large data: on so few rows its sweeps cost more than they need, so that it is given fewer, and its
# status asks for more.

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np

import weald
from weald import plot
from weald.diagnostics import ess_bulk

rng = np.random.default_rng(8)
centres = np.array([[0.0, 0.0], [3.5, 0.0], [9.0, 1.0], [9.0, 4.5], [3.0, 8.0], [-4.0, 6.0]])
X = centres[rng.integers(6, size=300)] + rng.standard_normal((300, 2))
DRAWS = {"collapsed": 500, "tree-guided": 500, "parallel": 180}


def fitted(inference, draws, warmup):
    """A fit, and the CPU seconds it took."""
    model = weald.DPMixture(
        covariance="spherical", inference=inference, draws=draws, warmup=warmup, n_jobs=1, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", weald.exceptions.StatusWarning)  # shown below instead
        start = time.process_time()
        return model.fit(X), time.process_time() - start


fits, seconds = {}, {}
for inference, draws in DRAWS.items():
    fitted(inference, 2, 0)  # compiled before the clock starts
    fits[inference], seconds[inference] = fitted(inference, draws, warmup=30)
for inference, model in fits.items():
    print(f"{inference}: {model.status_}")

# %%
# Traces of what does not depend on the names of clusters: the log joint probability of data and partition, and the
# number of clusters. Chains that began with few clusters or with many soon wander through the same range. (Those of
# the parallel sampler begin where short tree-guided chains on some of the rows have ended.) R-hat compares chains with
# each other; the effective sample says how many independent draws they are worth.

figure, axes = plt.subplots(2, 3, figsize=(10.5, 5.2), sharex="col", sharey="row", layout="constrained")
for (top, bottom), (inference, model) in zip(axes.T, fits.items(), strict=True):
    for ax, name in ((top, "log_joint"), (bottom, "n_clusters")):
        plot.plot_trace(model.posterior_, name, ax=ax)
        ax.label_outer()
    top.set_title(f"{inference}, {seconds[inference]:.1f} s")
    figures = model.status_.figures
    words = f"R-hat {figures['rhat']:.3f}, effective sample {figures['ess_bulk']:.0f}"
    bottom.text(0.98, 0.96, words, transform=bottom.transAxes, ha="right", va="top", fontsize="small")
kept = np.concatenate([model.posterior_.stats["log_joint"][:, 30:].ravel() for model in fits.values()])
axes[0, 0].set_ylim(kept.min() - 40, kept.max() + 5)
axes[1, 0].set_ylim(3.5, 15.5)
plt.show()

# %%
# The three agree on the number of clusters, to within what draws can tell: bars of two Monte Carlo standard errors,
# from the effective sample size of each probability.

figure, ax = plt.subplots(figsize=(10.5, 3.6), layout="constrained")
numbers = np.arange(5, 11)
for shift, (inference, model), colour in zip((-0.27, 0.0, 0.27), fits.items(), plot.COLOURS, strict=False):
    is_k = np.asarray(model.posterior_.draws["n_clusters"])[None] == numbers[:, None, None]
    p = is_k.mean(axis=(1, 2))
    n_effective = np.array([ess_bulk(one) if np.ptp(one) else one.size for one in is_k.astype(float)])
    error = 2 * np.sqrt(p * (1 - p) / n_effective)
    ax.bar(numbers + shift, p, 0.25, color=colour, alpha=0.9, label=inference)
    ax.errorbar(numbers + shift, p, error, fmt="none", ecolor="0.2", elinewidth=1, capsize=2)
ax.set(xlabel="number of clusters", ylabel="posterior probability", ylim=(0, None))
ax.legend(frameon=False)
plt.show()

# %%
# Chains that are too short. After eight sweeps they do not agree on the number of clusters, and still climb. There is
# an estimate all the same, and it looks like any other; ``status_`` tells them apart, and warns.

short, _ = fitted("collapsed", draws=8, warmup=0)
print(short.status_)
for words, model in (("after 8 sweeps", short), ("after 530", fits["collapsed"])):
    print(f"{words}: {model.n_components_} clusters, 95 % interval {model.n_components_interval_}")

figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.2), layout="constrained")
for ax, name in zip(axes, ("log_joint", "n_clusters"), strict=True):
    plot.plot_trace(short.posterior_, name, ax=ax)
axes[1].yaxis.get_major_locator().set_params(integer=True)
figure.suptitle(f"{short.status_.verdict.value}: {short.status_.message}", fontsize="medium")
plt.show()
