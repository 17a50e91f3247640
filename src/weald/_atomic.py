"""Files that appear whole or not at all.

Writing goes to a temporary file beside the target, which is flushed to disk and then renamed over it: after a crash at
any moment the target is the old file or the new one.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from weald._typing import PathLike


def target_of(path: PathLike) -> Path:
    """Where links lead; the folder must be there."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; make it first")
    return target


@contextmanager
def replacing(path: PathLike) -> Iterator[IO[bytes]]:
    """A file that takes the name `path` when it is complete and on disk, and vanishes otherwise."""
    target = target_of(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # the new name is on disk too, where the system can promise it
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
