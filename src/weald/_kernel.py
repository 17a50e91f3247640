"""The decorators of compiled code.

A kernel takes arrays only, is serial, and releases the GIL; one layer of threads stands above it
(`weald.engine`). Kernels are cached on disk, and compiled on their first call, never at import.

``NUMBA_DISABLE_JIT=1`` runs them as plain Python, for a debugger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


def kernel(function: F) -> F:
    """Compile on first call: cached, GIL released, IEEE except for reassociation and contraction."""
    compiled: F = numba.njit(fastmath={"reassoc", "contract"}, **_OPTIONS)(function)
    return compiled


def ordered(function: F) -> F:
    """A kernel whose operations keep their written order (contraction only), for bit tricks and split constants."""
    compiled: F = numba.njit(fastmath={"contract"}, **_OPTIONS)(function)
    return compiled


def inline(function: F) -> F:
    """A kernel that is pasted into its caller."""
    compiled: F = numba.njit(inline="always", error_model="numpy")(function)
    return compiled
