"""Priors over partitions: how many groups, and how large, before any data are seen.

| name | class | clusters of n items | when |
|---|---|---|---|
| dirichlet | `FiniteDirichlet` | at most K | finite mixtures |
| dp | `DirichletProcess` | about alpha log n | the default of nonparametric models |
| pitman-yor | `PitmanYor` | n^sigma | power-law sizes: words, species |
| nggp | `NormalisedGeneralisedGamma` | n^sigma | as above, with a product form given u |
| mfm | `MixtureOfFiniteMixtures` | a finite random number | when a finite truth is believed |

    >>> prior = PARTITIONS["pitman-yor"](concentration=1.0, discount=0.3)
    >>> round(prior.expected_n_clusters(1000))
    26
"""

from weald.partitions.base import AbstractPartition
from weald.partitions.dirichlet import FiniteDirichlet
from weald.partitions.dp import DirichletProcess
from weald.partitions.mfm import MixtureOfFiniteMixtures
from weald.partitions.nggp import NormalisedGeneralisedGamma
from weald.partitions.pitman_yor import PitmanYor
from weald.partitions.slice1d import slice_sample
from weald.partitions.sticks import TruncatedSticks

PARTITIONS: dict[str, type[AbstractPartition]] = {
    "dirichlet": FiniteDirichlet,
    "dp": DirichletProcess,
    "pitman-yor": PitmanYor,
    "nggp": NormalisedGeneralisedGamma,
    "mfm": MixtureOfFiniteMixtures,
}

__all__ = [
    "PARTITIONS",
    "AbstractPartition",
    "DirichletProcess",
    "FiniteDirichlet",
    "MixtureOfFiniteMixtures",
    "NormalisedGeneralisedGamma",
    "PitmanYor",
    "TruncatedSticks",
    "slice_sample",
]
