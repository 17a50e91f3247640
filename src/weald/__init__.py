"""weald: discover hidden structure, know how sure you are, decide what to measure next.

Names are imported when they are first used, so that ``import weald`` costs milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "AliasTable": "weald.trees",
    "BayesianHierarchicalClustering": "weald.mixtures",
    "Checkpoint": "weald.persist",
    "CoverTree": "weald.trees",
    "DPMixture": "weald.mixtures",
    "HDP": "weald.topics",
    "LDA": "weald.topics",
    "Mixture": "weald.mixtures",
    "NaiveBayes": "weald.mixtures",
    "Posterior": "weald.posterior",
    "Progress": "weald._progress",
    "Status": "weald.exceptions",
    "SupervisedLDA": "weald.topics",
    "load": "weald.persist",
    "save": "weald.persist",
}
_ROOMS = (
    "assign", "consensus", "datasets", "diagnostics", "engine", "exceptions", "families", "inference", "metrics",
    "mixtures", "partitions", "persist", "plot", "posterior", "testing", "topics", "trees",
)  # fmt: skip

__all__ = ["__version__", *_HOMES, *_ROOMS]

if TYPE_CHECKING:
    from weald._progress import Progress as Progress
    from weald.exceptions import Status as Status
    from weald.mixtures import BayesianHierarchicalClustering as BayesianHierarchicalClustering
    from weald.mixtures import DPMixture as DPMixture
    from weald.mixtures import Mixture as Mixture
    from weald.mixtures import NaiveBayes as NaiveBayes
    from weald.persist import Checkpoint as Checkpoint
    from weald.persist import load as load
    from weald.persist import save as save
    from weald.posterior import Posterior as Posterior
    from weald.topics import HDP as HDP
    from weald.topics import LDA as LDA
    from weald.topics import SupervisedLDA as SupervisedLDA
    from weald.trees import AliasTable as AliasTable
    from weald.trees import CoverTree as CoverTree


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return import_module(f"weald.{name}")
    raise AttributeError(f"module 'weald' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
