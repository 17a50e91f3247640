"""The E-step, interchangeable: one file for each kernel of contract C."""

from weald.assign.auto import AutoAssignment
from weald.assign.base import AbstractAssignment, Assignment, Part, Rows, Soft, expect_all, sample_all
from weald.assign.canopy1 import CanopyAssignment
from weald.assign.canopy2 import Canopy2Assignment
from weald.assign.exact import ExactAssignment
from weald.assign.groups import GroupsAssignment
from weald.assign.lists import ListsAssignment
from weald.assign.pruned import PrunedAssignment
from weald.assign.tree import TreeAssignment
from weald.exceptions import ParameterError

ASSIGNMENTS: dict[str, type[AbstractAssignment]] = {
    "canopy1": CanopyAssignment,
    "canopy2": Canopy2Assignment,
    "exact": ExactAssignment,
    "groups": GroupsAssignment,
    "lists": ListsAssignment,
    "pruned": PrunedAssignment,
    "tree": TreeAssignment,
}

__all__ = [
    "ASSIGNMENTS", "AbstractAssignment", "Assignment", "AutoAssignment", "Canopy2Assignment", "CanopyAssignment",
    "ExactAssignment", "GroupsAssignment", "ListsAssignment", "Part", "PrunedAssignment", "Rows", "Soft",
    "TreeAssignment", "assignment_from_name", "expect_all", "sample_all",
]  # fmt: skip


def assignment_from_name(name: str, n_components: int, *, width: int, draws: bool, strict: bool) -> AbstractAssignment:
    """The kernel called `name`; ``"auto"`` lets the figures choose.

    Parameters
    ----------
    name : str
        ``"auto"`` or a name in `ASSIGNMENTS`.
    n_components : int
        K.
    width : int
        Columns of T.
    draws : bool
        Labels will be drawn, not averaged.
    strict : bool
        Chains will be judged by their likelihood, and must not depend on what was remembered of past draws.
    """
    if name == "auto":
        return AutoAssignment(n_components, width, draws, strict)
    if name not in ASSIGNMENTS:
        raise ParameterError(f"assign must be 'auto' or one of {sorted(ASSIGNMENTS)}, got {name!r}")
    chosen = ASSIGNMENTS[name]()
    if strict and chosen.period > 1:
        raise ParameterError(
            f"gibbs needs assign='exact' or 'pruned': {name!r} only estimates the likelihood that chains are judged by"
        )
    return chosen
