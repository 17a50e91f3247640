"""What every run of the command line shares: its folder, its checkpoint, and the record that repeats it.

Files appear whole or not at all, and run.json last: a folder with run.json is complete. An interrupted run leaves
checkpoint.weald alone, from which ``--resume`` goes on.

    out = folder_for("run")
    model = checkpointed(weald.Mixture(3), X, out, callbacks=(), resume=False)
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import shlex
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import weald
from weald._atomic import replacing
from weald._progress import Callback
from weald._typing import JSON, PathLike
from weald.app.prepare import join_names
from weald.exceptions import DataWarning, ParameterError, Status, StatusWarning

CHECKPOINT_SECONDS = 5.0


def folder_for(out: PathLike) -> Path:
    """The folder of a run, made if need be; an earlier run there counts as unfinished from now on."""
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise ParameterError(f"{out} is a file; the output must be a folder")
    out.mkdir(parents=True, exist_ok=True)
    (out / "run.json").unlink(missing_ok=True)
    return out


def checkpointed(model: Any, X: Any, out: Path, callbacks: Sequence[Callback], resume: bool) -> Any:
    """Fit a model, keeping a checkpoint in `out` for as long as it takes."""
    checkpoint = out / "checkpoint.weald"
    keep = weald.Checkpoint(checkpoint, every_seconds=CHECKPOINT_SECONDS)
    model.fit(X, callbacks=[*callbacks, keep], resume=checkpoint if resume and checkpoint.exists() else None)
    checkpoint.unlink(missing_ok=True)
    return model


@contextmanager
def collected(notes: list[str]) -> Iterator[None]:
    """Turn warnings about the data into notes; the status is reported anyway."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if issubclass(warning.category, DataWarning):
            notes.append(str(warning.message))
        elif not issubclass(warning.category, StatusWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def command_line(name: str, source: str, out: Path, options: dict[str, Any]) -> str:
    """The shell command that repeats a run."""
    parts = ["weald", name, source]
    for option, value in {**options, "out": str(out)}.items():
        text = join_names(value) if isinstance(value, tuple) else str(value)
        parts += [f"--{option.replace('_', '-')}", text]
    return shlex.join(parts)


def provenance(source: str, n_rows: int, status: Status, seconds: float, command: str) -> dict[str, JSON]:
    """What run.json says of any run: where it came from, how it went, and what repeats it."""
    return {
        "weald_run": 1,
        "source": {"path": source, "sha256": digest(source), "rows": n_rows},
        "status": {"verdict": status.verdict.value, "message": status.message, "advice": list(status.advice)},
        "seconds": round(seconds, 3),
        "versions": dict(versions()),
        "command": command,
    }


def plain(settings: Any) -> dict[str, JSON]:
    """A dataclass as JSON has it."""
    fields: dict[str, JSON] = json.loads(json.dumps(dataclasses.asdict(settings)))
    return fields


def digest(source: str) -> str | None:
    """SHA-256 of a file, or of the files of a folder one after the other; None for standard input."""
    if source == "-":
        return None
    path, found = Path(source), hashlib.sha256()
    for part in sorted(path.rglob("*.txt")) if path.is_dir() else [path]:
        with open(part, "rb") as file:
            while block := file.read(1 << 20):
                found.update(block)
    return found.hexdigest()


def write_record(out: Path, record: dict[str, JSON]) -> None:
    """Write run.json, which says that the folder is complete."""
    with replacing(out / "run.json") as sink:
        sink.write(json.dumps(record, indent=2).encode())


def versions() -> dict[str, str]:
    """Versions of what computed the result."""
    import scipy
    import sklearn

    found = {"weald": weald.__version__, "python": platform.python_version(), "numpy": np.__version__}
    return found | {"scipy": scipy.__version__, "scikit-learn": sklearn.__version__}
