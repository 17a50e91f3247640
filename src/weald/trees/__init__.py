"""Trees and tables that make sampling cheap: flat arrays, and the compiled kernels that read them."""

from weald.trees.alias import AliasTable, alias_draw, build_rows
from weald.trees.cover import CoverTree
from weald.trees.nodes import Nodes

__all__ = ["AliasTable", "CoverTree", "Nodes", "alias_draw", "build_rows"]
