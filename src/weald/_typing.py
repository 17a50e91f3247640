"""Names of array kinds used in every signature; shapes stand in the docstrings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.integer[Any]]
Matrix: TypeAlias = Any  # (n, d) ndarray or scipy CSR: what reaches a family after validation
TableLike: TypeAlias = Any  # numpy, pandas, polars, scipy sparse, or a path: what a user may pass as X
RandomState: TypeAlias = int | np.integer[Any] | np.random.Generator | np.random.RandomState | None
PathLike: TypeAlias = str | Path
JSON: TypeAlias = bool | int | float | str | list["JSON"] | dict[str, "JSON"] | None
Params: TypeAlias = Mapping[str, Any]
