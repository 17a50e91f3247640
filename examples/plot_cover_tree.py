"""
A cover tree, level by level
============================

A cover tree holds a set of points as nested nets. The points of level j stand for all others: everyone has an
ancestor there within :math:`2^{j+1}`, and children of one point are more than half as far apart as their parent
reaches. Level by level the net becomes finer, until every point stands for itself. weald puts rows, or clusters, into
such trees.
"""

# %%
# A thousand points, most along a spiral. ``levels_`` lists the points of each level from the top down, and
# ``ancestor_at`` tells who stands for whom. Each disc is drawn around a point of the level, as large as it must be to
# hold those it stands for; a dot without a disc stands for itself alone. The net follows the points: where there are
# none, there are no discs.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.patches import Circle

import weald
from weald import plot

rng = np.random.default_rng(4)
angle = 3.6 * np.pi * np.sqrt(rng.uniform(0.02, 1.0, size=800))
spiral = angle[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.35 * rng.standard_normal((800, 2))
X = np.vstack([spiral, [13.0, 10.5] + 0.45 * rng.standard_normal((200, 2))])
tree = weald.CoverTree().fit(X)


def discs(ax, level, **style):
    """The discs of a level, and the number of its points."""
    ancestor = tree.ancestor_at(level)
    reach = np.zeros(len(X))
    np.maximum.at(reach, ancestor, np.linalg.norm(X - X[ancestor], axis=1))
    nodes = np.unique(ancestor)
    ax.add_collection(PatchCollection([Circle(X[i], reach[i]) for i in nodes], **style))
    ax.plot(*X[nodes].T, "o", color=style["edgecolor"], markersize=3.5, markeredgecolor="white", markeredgewidth=0.4)
    return nodes.size


def frame(ax, title):
    ax.set(aspect="equal", xlim=(-16.5, 17.5), ylim=(-20.5, 15.5), xticks=[], yticks=[], title=title)
    ax.spines[:].set_visible(False)


figure, axes = plt.subplots(2, 3, figsize=(10.5, 7.8), layout="constrained")
for ax, level, colour in zip(axes.flat, range(4, -2, -1), plot.COLOURS, strict=False):
    ax.plot(*X.T, ".", color="0.55", markersize=2)
    count = discs(ax, level, facecolor=colour + "1c", edgecolor=colour, linewidth=0.9)
    frame(ax, f"level {level}: {count} of {len(X):,} points")
plt.show()

# %%
# Neighbours are exact. A search goes down the tree, keeps the nearest points so far, and leaves out each subtree
# whose disc ends before the farthest of them. ``nodes_`` has the true radius of every subtree, so what a search has
# to look at can be counted: points whose parent's disc meets the ball around the query.


def looked_at(tree, y, k):
    """Slots whose parents could not be left out, given the distance to the k-th neighbour of y."""
    nodes, radius = tree.nodes_, tree.query([y], k)[0][0, -1]
    meets = np.linalg.norm(nodes.points - y, axis=1) - nodes.radius <= radius
    seen = np.zeros(len(meets), bool)
    seen[0] = True
    for level in range(nodes.level.max() - 1, nodes.level.min() - 1, -1):
        at = np.flatnonzero(nodes.level == level)
        seen[at] = (seen & meets)[nodes.parent[at]]
    return np.flatnonzero(seen)


y, k = np.array([6.3, 3.0]), 10
distances, indices = tree.query([y], k)
seen = looked_at(tree, y, k)
nearest = np.argsort(np.linalg.norm(X - y, axis=1))[:k]
print(f"the same {k} neighbours by brute force: {np.array_equal(np.sort(indices[0]), np.sort(nearest))}")
print(f"distances computed: {seen.size} of {len(X):,}")

# %%
# That is the picture in two columns. In many columns all points are about equally far from each other, every disc
# meets the ball, and no tree of any kind saves work, unless the points lie on something of few dimensions: it is the
# expansion rate of the data that counts, not the number of columns.

n, columns = 4_000, (2, 3, 4, 6, 8, 12, 16, 24, 32)
bend = rng.normal(size=(3, columns[-1]))
filled, sheet = [], []
for d in columns:
    U = rng.uniform(-1, 1, size=(n + 40, 3))
    for shares, P in ((filled, rng.standard_normal((n + 40, d))), (sheet, np.sin(U @ bend[:, :d]))):
        grown = weald.CoverTree().fit(P[:n])
        shares.append(np.mean([looked_at(grown, q, k).size for q in P[n:]]) / n)

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.8), layout="constrained", width_ratios=[1, 1.1])
far = np.setdiff1d(np.arange(len(X)), tree.nodes_.number[seen])
left.plot(*X[far].T, ".", color="0.8", markersize=3)
left.plot(*X[tree.nodes_.number[seen]].T, ".", color=plot.COLOURS[1], markersize=6)
left.plot(*X[indices[0]].T, "o", color=plot.COLOURS[0], markersize=5)
left.add_patch(Circle(y, distances[0, -1], fill=False, color=plot.COLOURS[0], linewidth=1.4))
left.plot(*y, "+", color="black", markersize=9, markeredgewidth=1.6)
left.text(y[0] - 1.6, y[1], f"{k} nearest ", ha="right", va="center", color=plot.COLOURS[0])
left.text(10.2, -4.5, "looked at", color=plot.COLOURS[1])
left.text(10.2, -7.0, "left out", color="0.5")
frame(left, f"{seen.size} of {len(X):,} points looked at")
for shares, name, colour in ((filled, "points that fill all columns", 3), (sheet, "a bent sheet of 3 dimensions", 2)):
    right.plot(columns, shares, "o-", color=plot.COLOURS[colour], linewidth=2, markersize=5)
    right.annotate(
        name, (columns[-1], shares[-1]), (0, 9), textcoords="offset points", ha="right", color=plot.COLOURS[colour]
    )
right.set(xscale="log", xlabel="columns", ylim=(0, 1.08), xticks=columns, xticklabels=columns)
right.minorticks_off()
right.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
right.set_title(f"share of {n:,} points looked at for {k} neighbours")
plt.show()

# %%
# Trees change with their points. A new point gets the next number, removal leaves the other numbers as they are, and
# ``check`` verifies every level, distance and radius.

number = tree.insert([2.0, -14.5])
tree.remove(0)
print(f"point {number} inserted, point 0 removed: {tree.check().n_points_:,} points")
print(f"nearest to [2, -14]: point {tree.query([[2.0, -14.0]])[1][0, 0]}")
print(f"expansion rate {tree.expansion_rate_:.1f}")
