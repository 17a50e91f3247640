"""
How many clusters does a prior expect?
======================================

Before any data are seen, a prior over partitions already says how many groups there should be and how their sizes
differ. The Dirichlet process expects about :math:`\\alpha \\log(1 + n/\\alpha)` clusters; Pitman-Yor and normalised
generalised gamma processes expect a power of n; a mixture of finite mixtures expects a number that stops growing.
"""

# %%
# Expected numbers are exact, by a closed form, a recursion or one integral; for the Dirichlet process the familiar
# approximation is drawn beside it.

import matplotlib.pyplot as plt
import numpy as np

from weald import plot
from weald.partitions import DirichletProcess, MixtureOfFiniteMixtures, NormalisedGeneralisedGamma, PitmanYor

priors = {
    "Dirichlet process, α = 3": DirichletProcess(concentration=3.0),
    "Pitman-Yor, θ = 1, σ = 0.5": PitmanYor(concentration=1.0, discount=0.5),
    "normalised gen. gamma, α = 1, σ = 0.5": NormalisedGeneralisedGamma(concentration=1.0, discount=0.5),
    "finite mixtures, 1 + Poisson(9)": MixtureOfFiniteMixtures(concentration=1.0, n_extra=9.0),
}
sizes = np.unique(np.geomspace(1, 2000, 16).astype(int))

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
for (name, prior), colour in zip(priors.items(), plot.COLOURS, strict=False):
    left.plot(sizes, [prior.expected_n_clusters(int(n)) for n in sizes], color=colour, linewidth=2, label=name)
dp = priors["Dirichlet process, α = 3"]
left.plot(sizes, [dp.expected_n_clusters_approx(int(n)) for n in sizes], ":", color="0.25", label="α log(1 + n/α)")
left.set(xscale="log", yscale="log", xlabel="items", ylabel="expected number of clusters")
left.legend(frameon=False, fontsize="small")

# %%
# Draws show what the mean hides. Each bar is one partition of 500 items, cut where one cluster ends and the next
# begins, largest first. Power laws have a long tail of tiny clusters; finite mixtures have none.

rng = np.random.default_rng(0)
for row, ((_, prior), colour) in enumerate(zip(priors.items(), plot.COLOURS, strict=False)):
    for i in range(5):
        counts = np.sort(np.bincount(prior.draw(500, rng)))[::-1]
        starts = np.cumsum(counts) - counts
        at = 6 * row + i
        right.barh(np.full(counts.size, at), counts, 0.86, starts, color=colour, edgecolor="white", linewidth=0.4)
        right.text(508, at, counts.size, va="center", fontsize="small", color=colour)
right.invert_yaxis()
right.set(xlabel="items", yticks=[], xlim=(0, 545))
right.spines["left"].set_visible(False)
right.set_title("five draws of 500 items, with their numbers of clusters")
left.set_title("expected number of clusters")
plt.show()

# %%
# Concentrations need not be guessed. ``update`` moves them by a step that leaves their posterior invariant, given
# the sizes of clusters: here, those of one partition drawn with :math:`\alpha = 3`.

observed = np.bincount(dp.draw(1000, rng))
prior, alphas = DirichletProcess(concentration=1.0, shape=1.0, rate=0.1), []
for _ in range(2000):
    prior = prior.update(observed, rng)
    alphas.append(prior.concentration)
low, high = np.quantile(alphas, [0.05, 0.95])
print(f"{observed.size} clusters of 1,000 items: concentration between {low:.1f} and {high:.1f} (90 %)")
