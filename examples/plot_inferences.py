"""
Four inferences, one model
==========================

``Mixture`` fits the same model in four ways. EM finds one best set of parameters; stochastic EM does so by drawing
labels, which is cheap for many components; variational Bayes keeps a distribution over parameters and empties the
components it does not need; Gibbs sampling draws from the posterior itself. They differ in one argument.
"""

# %%
# Six blobs, and a Gaussian mixture with a few components too many.

import warnings

import matplotlib.pyplot as plt
import numpy as np

import weald
from weald import plot

rng = np.random.default_rng(3)
centres = np.array([[0.0, 0.0], [4.4, 0.3], [2.3, 3.9], [-4.0, 4.0], [7.0, 4.5], [-3.2, -3.6]])
z = rng.integers(len(centres), size=600)
X = centres[z] + 0.85 * rng.standard_normal((600, 2))
N_COMPONENTS = 10

# %%
# EM, stochastic EM and Gibbs spread over the ten components they were given. Variational Bayes keeps six:
# it merges components where that raises its bound.

fits = {}
for inference in ("em", "sem", "gibbs", "vb"):
    model = weald.Mixture(N_COMPONENTS, inference=inference, draws=200, warmup=200, random_state=1)
    with warnings.catch_warnings():
        # ten components on six blobs have many modes; Gibbs says so, see "What R-hat catches"
        warnings.simplefilter("ignore", weald.exceptions.StatusWarning)
        fits[inference] = model.fit(X)

figure, axes = plt.subplots(2, 2, figsize=(9, 7), sharex=True, sharey=True, layout="constrained")
for ax, (inference, model) in zip(axes.flat, fits.items(), strict=True):
    plot.plot_clusters(X, model.predict(X), model.predict_proba(X), model, ax=ax, names=("", ""))
    ax.set_title(f'inference="{inference}": {model.n_components_} components')
plt.show()

# %%
# How variational Bayes gets there: the evidence bound never falls, and every few sweeps neighbours are merged where
# the bound is higher for it. A callback is told of every sweep; its snapshot holds the state, and the last column of
# the statistics ``S`` counts the rows of each component.

sizes = []


def watch(event):
    if event.phase == "step":
        sizes.append(event.snapshot().current.state.S[:, -1])


vb = weald.Mixture(N_COMPONENTS, inference="vb", init="random-points", random_state=0).fit(X, callbacks=[watch])
bound = vb.posterior_.stats["objective"][0] / len(X)
sweeps = np.arange(1, bound.size + 1)
kept = int((sizes[-1] > 0.5).sum())

figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 5.4), sharex=True, layout="constrained")
top.plot(sweeps, bound, "o-", color=plot.COLOURS[0], linewidth=2, markersize=4)
top.set(ylabel="evidence bound per row", ylim=(bound[1] - 0.02, bound[-1] + 0.02))
top.set_title(f"{N_COMPONENTS} components at the start, {kept} at the end")
bottom.stackplot(sweeps, np.array(sizes).T, colors=plot.palette(N_COMPONENTS), alpha=0.85, edgecolor="white")
bottom.set(xlabel="sweep", ylabel="rows of each component", ylim=(0, len(X)), xticks=sweeps[::2])
for k in np.flatnonzero(sizes[-1] > 0.5):
    middle = sizes[-1][: k + 1].sum() - sizes[-1][k] / 2
    bottom.text(sweeps[-1], middle, f" {k}", va="center", color=plot.palette(N_COMPONENTS)[k])
plt.show()
