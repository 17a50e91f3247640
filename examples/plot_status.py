"""
What R-hat catches
==================

A sampler always returns numbers. Whether they describe the posterior is another matter, and ``status_`` is the place
to look: it compares independent chains by R-hat and effective sample size, and says what to do.
"""

# %%
# Two fits of the same data. The first gives every chain time and asks for as many components as there are blobs. The
# second starts each chain from parameters drawn at random, with two components too few: chains settle on different
# ways to merge the blobs and never leave.

import warnings

import matplotlib.pyplot as plt
import numpy as np

import weald
from weald import plot

rng = np.random.default_rng(5)
centres = np.array([[-6.0, 0.0], [-2.0, 0.0], [2.0, 0.0], [6.0, 0.0], [0.0, 5.0]])
X = centres[rng.integers(5, size=400)] + 0.7 * rng.standard_normal((400, 2))

fits = {
    "five components": weald.Mixture(5, inference="gibbs", covariance="diag", draws=300, warmup=100, random_state=0),
    "three components": weald.Mixture(
        3, inference="gibbs", covariance="diag", init="random", draws=300, warmup=100, random_state=0
    ),
}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", weald.exceptions.StatusWarning)  # shown below instead
    for name, model in fits.items():
        print(f"{name}: {model.fit(X).status_}")

# %%
# Each chain looks calm on its own. Only together do they show that something is wrong: that is what R-hat measures.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for ax, (name, model) in zip(axes, fits.items(), strict=True):
    plot.plot_trace(model.posterior_, "log_likelihood", ax=ax)
    ax.axvspan(0, model.warmup, color="0.93", zorder=0)
    figures = model.status_.figures
    ax.set_title(f"{name}: {model.status_.verdict.value}, R-hat {figures['rhat']:.3f}")
    kept = model.posterior_.stats["log_likelihood"][:, model.warmup // 2 :]
    ax.set_ylim(kept.min() - 15, kept.max() + 15)
    ax.set_xlabel("sweep (grey: warmup)")
plt.show()
