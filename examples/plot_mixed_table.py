"""
A table with columns of every kind, and holes
=============================================

Customers have an income, a number of visits, a membership, a city. With ``family="mixed"`` each column gets the
likelihood that suits it, read from its dtype, and missing cells are marginalised: no imputation, no dropped rows.
"""

# %%
# A simulated table, so that the answer is known. A third of the cells in income, height and city are missing.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import weald
from weald import plot
from weald.datasets import make_mixed_table

data = make_mixed_table(n=2000, k=4, rng=3, missing=0.35)
table = pd.DataFrame(data.X)
print(table.head())
print(f"{table.isna().any(axis=1).mean():.0%} of the rows miss at least one cell")

# %%
# One call. The parameters come back under the name of their likelihood, in the units of the table.

mix = weald.Mixture(n_components=4, family="mixed", n_init=5, random_state=0).fit(table)
for name, values in mix.parameters_.items():
    print(f"{name}: {values.shape}")

# %%
# What the missing cells cost is stated in the probabilities. The fewer cells a row has, the flatter they are, and
# they stay honest: rows are put into the right group as often as the model says.

proba = mix.predict_proba(table)
match = np.array([np.bincount(data.z[mix.labels_ == k], minlength=4).argmax() for k in range(4)])
right = match[mix.labels_] == data.z
n_missing = table.isna().sum(axis=1).to_numpy()

figure, (left, middle) = plt.subplots(1, 2, figsize=(10, 4.2), width_ratios=(1.35, 1), layout="constrained")
shown = table.assign(**{f"city {city}": table["city"] == city for city in sorted(table["city"].dropna().unique())})
shown = shown.assign(**{f"plan {plan}": table["plan"] == plan for plan in sorted(table["plan"].unique())})
shown = shown.drop(columns=["city", "plan"]).astype(float)
plot.plot_profiles(shown.to_numpy(), mix.labels_, names=list(shown.columns), ax=left)
left.set_title("what sets each cluster apart (standard deviations)")

counts = np.arange(n_missing.max() + 1)
stated = [proba.max(axis=1)[n_missing == m].mean() for m in counts]
true = [right[n_missing == m].mean() for m in counts]
middle.bar(counts - 0.19, stated, 0.36, color=plot.COLOURS[2], label="certainty the model states")
middle.bar(counts + 0.19, true, 0.36, color=plot.COLOURS[0], label="rows in the right group")
middle.set(xlabel="missing cells in the row", ylabel="share", xticks=counts, ylim=(0.5, 1.12))
middle.set_title("fewer cells, less certainty")
middle.legend(frameon=False, ncols=2, loc="upper center", fontsize="small")
plt.show()
