"""
Which assignment kernel, and when
=================================

With hundreds of clusters nearly all of the time goes into drawing labels. ``Mixture(assign=...)`` has several ways to
do that. All leave the law of the labels as it is; they differ in what a sweep costs and in how many labels it renews.
Whether a kernel is fast shows in whole fits only: how good is the mixture after so many seconds?
"""

# %%
# Twenty thousand rows around 600 centres, in 3 and in 16 columns, fitted by stochastic EM with more and more sweeps.
# Quality is the mean log-likelihood of rows that were held out.

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np

import weald
from weald import plot
from weald.datasets import make_blobs_overlapping

N, K, SWEEPS = 20_000, 600, (2, 5, 12, 30)
KERNELS = ("exact", "pruned", "lists", "canopy1")
COLOURS = dict(zip(KERNELS, ("0.25", plot.COLOURS[0], plot.COLOURS[1], plot.COLOURS[2]), strict=True))


def fitted(X, assign, sweeps):
    """A mixture, and the CPU seconds that it took."""
    model = weald.Mixture(
        K, covariance="spherical", inference="sem", init="random-points", assign=assign, max_iter=sweeps, tol=0.0,
        n_jobs=1, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", weald.exceptions.StatusWarning)  # a given number of sweeps is no convergence
        start = time.process_time()
        return model.fit(X), time.process_time() - start


paths, last = {}, {}
for d in (3, 16):
    X = make_blobs_overlapping(N + 1_000, d, K, separation=5.0, rng=0, dtype=np.float32).X
    train, test = X[:N], X[N:]
    for assign in KERNELS:
        fitted(train[: N // 3], assign, 2)  # compiled before the clock starts
        fits = [fitted(train, assign, sweeps) for sweeps in SWEEPS]
        paths[d, assign] = np.array([(seconds, model.score(test)) for model, seconds in fits])
        last[d, assign] = fits[-1][0]

# %%
# In 3 columns, rows that lie together rule out nearly all clusters together: ``"pruned"`` gives exact draws for a
# fraction of the work. In 16 columns they rule out hardly any, and its bounds are work for nothing; there
# ``"lists"``, which remember for each row the clusters it may belong to, save time, and the more, the more clusters
# there are. ``"canopy1"`` has cheap sweeps everywhere, but its labels come from proposals for whole cells of rows,
# and in many columns a cell does not know where its rows are.

figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained")
for ax, d in zip(axes, (3, 16), strict=True):
    for assign in KERNELS:
        seconds, quality = paths[d, assign].T
        ax.plot(seconds, quality, "o-", color=COLOURS[assign], linewidth=2, markersize=5)
        away, side = {"exact": ((0, -16), "center"), "canopy1": ((8, -12), "left")}.get(assign, ((0, 8), "center"))
        name = {"xytext": away, "ha": side, "color": COLOURS[assign]}
        ax.annotate(assign, (seconds[-1], quality[-1]), textcoords="offset points", **name)
    ax.set(xscale="log", xlabel="CPU seconds of a whole fit", title=f"{d} columns, {K} clusters", xlim=(0.02, 1.3))
    ax.set_xticks([0.02, 0.05, 0.1, 0.2, 0.5, 1], ["0.02", "0.05", "0.1", "0.2", "0.5", "1"])
    ax.margins(y=0.1)
    ax.minorticks_off()
axes[0].set_ylabel("held-out log-likelihood per row")
plt.show()

# %%
# ``posterior_`` says what each sweep did: the scores computed, the labels renewed, the proposals accepted. Beware of
# the last two on their own: a proposal of the label that a row has is accepted, too, and labels that wander among
# poor clusters are renewed. It is the quality above that counts.

for (d, assign), model in last.items():
    stats = {name: values[0, -8:].mean() for name, values in model.posterior_.stats.items()}
    accepted = f", {stats['acceptance']:.0%} of proposals accepted" if "acceptance" in stats else ""
    scores = f"{stats['n_evals'] / (N * K):.0%} of scores"
    print(f"{d} columns, {assign}: {scores}, {stats['renewed']:.1%} of labels renewed{accepted}")

# %%
# Nothing of this has to be decided by hand. ``assign="auto"``, the default, looks at the data and at what sweeps
# achieve, and ``posterior_.attrs`` tells what it did.

for d in (3, 16):
    X = make_blobs_overlapping(N, d, K, separation=5.0, rng=0, dtype=np.float32).X
    model, _ = fitted(X, "auto", 12)
    print(f"{d} columns, {model.posterior_.attrs['assign']}")
