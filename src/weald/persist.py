"""One file for a model or a checkpoint: JSON and arrays, never pickle. Reading a file executes nothing in it.

A file is a zip archive, stored without compression. Its first entry, ``header.json``, holds a magic word, the format
version, the weald that wrote it, the kind of object and the object as a tree; every array is one ``.npy`` entry, whose
dtype and shape the tree states. Trees are made of JSON values, tuples, numpy scalars and arrays, CSR matrices, and the
classes named in `weald._tree.REGISTRY`: no other class can be built by reading. Estimators keep their parameters, their
fitted attributes (``name_``) and the private ones they list in ``_persisted``; a generator given as `random_state` is
saved as None, for it is spent.

Every size is checked against the size of the file before memory is taken, so a damaged or hostile file raises
`PersistError` and nothing else. Writing goes to a temporary file beside the target, which is flushed to disk and then
renamed over it: after a crash at any moment the target is the old file or the new one. Cost: one pass over the arrays.

    >>> from weald import Mixture, load, save
    >>> save(Mixture(3).fit(X), "model.weald")                                              # doctest: +SKIP
    >>> load("model.weald").predict(X)                                                      # doctest: +SKIP
"""

from __future__ import annotations

import json
import os
import re
import time
import zipfile
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np

from weald import __version__
from weald._atomic import replacing, target_of
from weald._progress import Event
from weald._tree import Source, decode, distinct, encode, is_estimator, kind_of, need_right
from weald._typing import Array, PathLike
from weald.exceptions import ParameterError, PersistError

MAGIC, FORMAT, HEADER = "weald", 1, "header.json"
HEADER_KEYS = {"magic", "format", "weald", "kind", "tree"}
ENTRY_NAME = re.compile(r"(0|[1-9][0-9]{0,8})\.npy")
ZIP64_ABOVE = 2**30


def save(estimator: Any, path: PathLike) -> None:
    """Write an estimator, fitted or not, to one file.

    Parameters
    ----------
    estimator : weald estimator
    path : str or Path
        Replaced if it exists, as a whole.
    """
    if not is_estimator(type(estimator)):
        raise PersistError(f"save takes a weald estimator, got {type(estimator).__name__}; use weald.persist.write")
    write(path, estimator)


def load(path: PathLike) -> Any:
    """The estimator in a file that `save` wrote.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    estimator
    """
    obj = read(path)
    if not is_estimator(type(obj)):
        what = type(obj).__name__
        raise PersistError(f"{path}: holds a {what}, not an estimator; read it with weald.persist.read")
    return obj


def write(path: PathLike, obj: Any) -> None:
    """Write any tree of supported values to one file, atomically.

    Parameters
    ----------
    path : str or Path
    obj : object
        JSON values, tuples, mappings, numpy arrays and scalars, CSR matrices, classes in `weald._tree.REGISTRY`.
    """
    arrays: list[Array] = []
    tree = encode(obj, arrays)
    header = {"magic": MAGIC, "format": FORMAT, "weald": __version__, "kind": kind_of(tree), "tree": tree}
    try:
        text = json.dumps(header, allow_nan=False)
    except ValueError as error:
        raise PersistError(f"cannot save {kind_of(tree)}: {error}") from error
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(HEADER), text)
        for i, x in enumerate(arrays):
            with archive.open(zipfile.ZipInfo(f"{i}.npy"), "w", force_zip64=x.nbytes > ZIP64_ABOVE) as entry:
                np.lib.format.write_array(entry, x, version=(1, 0), allow_pickle=False)


def read(path: PathLike, kind: str | None = None) -> Any:
    """The object in a file that `write` wrote.

    Parameters
    ----------
    path : str or Path
    kind : str, optional
        Name of the class that the file must hold.

    Returns
    -------
    object

    Raises
    ------
    FileNotFoundError
        There is no such file.
    PersistError
        The file is damaged, hostile, of another kind, or from a newer weald.
    """
    with open(path, "rb") as file:
        try:
            return _read(file, kind)
        except PersistError as error:
            raise PersistError(f"{path}: {error}") from error
        except Exception as error:  # whatever a damaged archive provokes in zipfile, json or numpy
            advice = "not a weald file, or damaged; restore it from a copy or write it again"
            raise PersistError(f"{path}: {advice} ({type(error).__name__}: {error})") from error


@dataclass
class Checkpoint:
    """A callback that writes a snapshot of the run now and then, and when it ends.

    Parameters
    ----------
    path : str or Path
        Replaced as a whole at each write. Go on from it with ``fit(X, resume=path)``.
    every : int
        Sweeps between writes.
    every_seconds : float, optional
        Seconds between writes; when given, it takes the place of `every`.
    """

    path: PathLike
    every: int = 10
    every_seconds: float | None = None
    _written: float = field(default=0.0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.every, int) or self.every < 1:
            raise ParameterError(f"every must be a positive number of sweeps, got {self.every!r}")
        if self.every_seconds is not None and not self.every_seconds > 0:
            raise ParameterError(f"every_seconds must be positive, got {self.every_seconds!r}")
        target_of(self.path)
        self._written = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Write if a write is due."""
        if event.phase == "end" or (event.phase == "step" and self._due(event.sweep)):
            write(self.path, event.snapshot())
            self._written = time.monotonic()

    def _due(self, sweep: int) -> bool:
        if self.every_seconds is None:
            return sweep % self.every == 0
        return time.monotonic() - self._written >= self.every_seconds


def _read(file: IO[bytes], kind: str | None) -> Any:
    with zipfile.ZipFile(file) as archive:
        source = Source(archive, _entries(archive, os.fstat(file.fileno()).st_size))
        header = json.loads(archive.read(HEADER).decode(), object_pairs_hook=distinct)
        tree = _tree(header, kind)
        obj = decode(tree, source)
        need_right(not source.unclaimed, (), f"the arrays {sorted(source.unclaimed)[:5]} belong to nothing")
        return obj


def _entries(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The array entries by name, all of them plain, distinct, and no larger than the file."""
    infos = archive.infolist()
    if not infos or infos[0].filename != HEADER:
        raise PersistError(f"not a weald file: it does not begin with {HEADER}; write it with weald.save")
    names = [info.filename for info in infos[1:]]
    if len(set(names)) < len(names) or not all(ENTRY_NAME.fullmatch(name) for name in names):
        raise PersistError("not a weald file: entries have strange or repeated names; do not trust it")
    plain = all(i.compress_type == zipfile.ZIP_STORED and i.file_size == i.compress_size for i in infos)
    if not plain or any(i.flag_bits & 1 for i in infos) or sum(i.file_size for i in infos) > size:
        raise PersistError("not a weald file: entries are compressed, or larger than the file; do not trust it")
    return {info.filename: info for info in infos[1:]}


def _tree(header: Any, kind: str | None) -> Any:
    """The object tree, once the rest of the header has been found right."""
    if not isinstance(header, dict) or header.get("magic") != MAGIC:
        raise PersistError("not a weald file: the magic word is missing; write it with weald.save")
    version: Any = header.get("format")
    need_right(type(version) is int and version >= 1, (), f"format {version!r}")
    if version > FORMAT:
        raise PersistError(f"was written by a newer weald (format {version}, this one reads {FORMAT}); upgrade weald")
    need_right(set(header) == HEADER_KEYS and header["kind"] == kind_of(header["tree"]), (), "a strange header")
    if kind is not None and header["kind"] != kind:
        raise PersistError(f"holds a {header['kind']}, not a {kind}; give the path of a {kind}")
    return header["tree"]
