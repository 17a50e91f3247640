"""One file for a model or a checkpoint: JSON and arrays, never pickle. Reading a file executes nothing in it.

A file is a zip archive, stored without compression. Its first entry, ``header.json``, holds a magic word, the format
version, the weald that wrote it, the kind of object and the object as a tree; every array is one ``.npy`` entry, whose
dtype and shape the tree states. Trees are made of JSON values, tuples, numpy scalars and arrays, CSR matrices, and the
classes named in `REGISTRY`: no other class can be built by reading. Estimators keep their parameters, their fitted
attributes (``name_``) and the private ones they list in ``_persisted``; a generator given as `random_state` is saved
as None, for it is spent.

Every size is checked against the size of the file before memory is taken, so a damaged or hostile file raises
`PersistError` and nothing else. Writing goes to a temporary file beside the target, which is flushed to disk and then
renamed over it: after a crash at any moment the target is the old file or the new one. Cost: one pass over the arrays.

    >>> from weald import Mixture, load, save
    >>> save(Mixture(3).fit(X), "model.weald")                                              # doctest: +SKIP
    >>> load("model.weald").predict(X)                                                      # doctest: +SKIP
"""

from __future__ import annotations

import enum
import inspect
import json
import math
import os
import re
import secrets
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from scipy import sparse

from weald import __version__
from weald._progress import Event
from weald._typing import Array, PathLike
from weald.exceptions import ParameterError, PersistError

MAGIC, FORMAT, HEADER = "weald", 1, "header.json"
HEADER_KEYS = {"magic", "format", "weald", "kind", "tree"}
ENTRY_NAME = re.compile(r"(0|[1-9][0-9]{0,8})\.npy")
ARRAY_KINDS, SCALAR_KINDS = "biufcmMSU", "biufcmM"
MAX_DEPTH = 50
ZIP64_ABOVE = 2**30

REGISTRY: dict[str, str] = {
    "Bernoulli": "weald.families.bernoulli:Bernoulli",
    "Categorical": "weald.families.categorical:Categorical",
    "Chain": "weald.inference.run:Chain",
    "Components": "weald.mixtures.components:Components",
    "DiagonalGaussian": "weald.families.gaussian_diag:DiagonalGaussian",
    "DirichletProcess": "weald.partitions.dp:DirichletProcess",
    "FiniteDirichlet": "weald.partitions.dirichlet:FiniteDirichlet",
    "FullGaussian": "weald.families.gaussian_full:FullGaussian",
    "Mixture": "weald.mixtures.mixture:Mixture",
    "MixtureOfFiniteMixtures": "weald.partitions.mfm:MixtureOfFiniteMixtures",
    "MixtureState": "weald.mixtures.kernels:MixtureState",
    "Multinomial": "weald.families.multinomial:Multinomial",
    "NaiveBayes": "weald.mixtures.naive_bayes:NaiveBayes",
    "NormalisedGeneralisedGamma": "weald.partitions.nggp:NormalisedGeneralisedGamma",
    "PitmanYor": "weald.partitions.pitman_yor:PitmanYor",
    "Poisson": "weald.families.poisson:Poisson",
    "Posterior": "weald.posterior:Posterior",
    "Product": "weald.families.product:Product",
    "Schema": "weald._validate:Schema",
    "Snapshot": "weald.inference.run:Snapshot",
    "SphericalGaussian": "weald.families.gaussian_spherical:SphericalGaussian",
    "Status": "weald.exceptions:Status",
    "TiedGaussian": "weald.families.gaussian_tied:TiedGaussian",
    "Verdict": "weald.exceptions:Verdict",
}

Node: TypeAlias = dict[str, Any]  # a tagged value of the tree
Path_: TypeAlias = tuple[str, ...]  # where in the tree: for messages, and to bound the depth


def save(estimator: Any, path: PathLike) -> None:
    """Write an estimator, fitted or not, to one file.

    Parameters
    ----------
    estimator : weald estimator
    path : str or Path
        Replaced if it exists, as a whole.
    """
    if not _is_estimator(type(estimator)):
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
    if not _is_estimator(type(obj)):
        what = type(obj).__name__
        raise PersistError(f"{path}: holds a {what}, not an estimator; read it with weald.persist.read")
    return obj


def write(path: PathLike, obj: Any) -> None:
    """Write any tree of supported values to one file, atomically.

    Parameters
    ----------
    path : str or Path
    obj : object
        JSON values, tuples, mappings, numpy arrays and scalars, CSR matrices, classes in `REGISTRY`.
    """
    arrays: list[Array] = []
    tree = _encode(obj, arrays, ())
    header = {"magic": MAGIC, "format": FORMAT, "weald": __version__, "kind": _kind(tree), "tree": tree}
    try:
        text = json.dumps(header, allow_nan=False)
    except ValueError as error:
        raise PersistError(f"cannot save {_kind(tree)}: {error}") from error
    with _replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
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
        _target(self.path)
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


# Writing


def _encode(x: Any, arrays: list[Array], at: Path_) -> Any:
    """The JSON node of a value; arrays are put aside and referred to by their position."""
    cls = type(x)
    if len(at) > MAX_DEPTH:
        raise PersistError(f"cannot save {_place(at[:4])}...: nested more than {MAX_DEPTH} deep, or inside itself")
    if x is None or cls in (bool, int, str):
        return x
    if cls is float:
        return x if math.isfinite(x) else {"@": "float", "value": repr(x)}
    if cls is np.str_:
        return str(x)
    if isinstance(x, np.generic) and x.dtype.kind in SCALAR_KINDS:
        return {"@": "scalar", "dtype": x.dtype.str, "hex": x.tobytes().hex()}
    if cls is np.ndarray:
        return _encode_array(x, arrays, at)
    if cls in (sparse.csr_array, sparse.csr_matrix) and x.ndim == 2:
        parts = {name: _encode(getattr(x, name), arrays, (*at, name)) for name in ("data", "indices", "indptr")}
        return {"@": "csr", "class": cls.__name__, "shape": [int(n) for n in x.shape], **parts}
    if cls in (list, tuple):
        items = [_encode(value, arrays, (*at, str(i))) for i, value in enumerate(x)]
        return items if cls is list else {"@": "tuple", "items": items}
    if isinstance(x, Mapping):
        return _encode_mapping(x, arrays, at)
    return _encode_object(x, arrays, at)


def _encode_array(x: Array, arrays: list[Array], at: Path_) -> Any:
    if x.dtype.kind == "O" and all(type(value) is str for value in x.flat):
        return {"@": "strings", "shape": list(x.shape), "values": x.ravel().tolist()}
    if x.dtype.kind not in ARRAY_KINDS or x.dtype.itemsize == 0:
        raise PersistError(f"cannot save {_place(at)}: arrays of dtype {x.dtype} are not supported")
    arrays.append(x)
    return {"@": "array", "entry": f"{len(arrays) - 1}.npy", "dtype": x.dtype.str, "shape": list(x.shape)}


def _encode_mapping(x: Mapping[Any, Any], arrays: list[Array], at: Path_) -> Any:
    if wrong := [key for key in x if type(key) is not str]:
        raise PersistError(f"cannot save {_place(at)}: keys must be str, got {wrong[0]!r}")
    nodes = _encode_parts(x, arrays, at)
    return {"@": "dict", "items": nodes} if "@" in nodes else nodes


def _encode_object(x: Any, arrays: list[Array], at: Path_) -> Any:
    cls = type(x)
    home = f"{cls.__module__}:{cls.__qualname__}"
    name = next((name for name, known in REGISTRY.items() if known == home), None)
    if name is None:
        raise PersistError(f"cannot save {_place(at)}: {cls.__name__} is not among the types weald files may hold")
    if isinstance(x, enum.Enum):
        return {"@": "enum", "class": name, "member": x.name}
    at = (*at, name)
    if is_dataclass(x):
        values = {f.name: getattr(x, f.name) for f in fields(x) if f.init}
        return {"@": "object", "class": name, "fields": _encode_parts(values, arrays, at)}
    spent = (np.random.Generator, np.random.RandomState)
    params = {key: None if isinstance(value, spent) else value for key, value in x.get_params(deep=False).items()}
    fitted = {key: value for key, value in vars(x).items() if _is_fitted(cls, key)}
    nodes = {"params": _encode_parts(params, arrays, at), "fitted": _encode_parts(fitted, arrays, at)}
    return {"@": "estimator", "class": name, **nodes}


def _encode_parts(values: Mapping[str, Any], arrays: list[Array], at: Path_) -> dict[str, Any]:
    return {name: _encode(value, arrays, (*at, name)) for name, value in values.items()}


def _is_estimator(cls: type) -> bool:
    return hasattr(cls, "get_params") and not is_dataclass(cls)


def _is_fitted(cls: type, name: str) -> bool:
    return (name.endswith("_") and not name.startswith("_")) or name in getattr(cls, "_persisted", ())


def _target(path: PathLike) -> Path:
    """Where links lead; the folder must be there."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; make it first")
    return target


@contextmanager
def _replacing(path: PathLike) -> Iterator[IO[bytes]]:
    """A file that takes the name `path` when it is complete and on disk, and vanishes otherwise."""
    target = _target(path)
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


# Reading


@dataclass
class _Source:
    """An open archive, and its arrays that no node has claimed yet."""

    archive: zipfile.ZipFile
    unclaimed: dict[str, zipfile.ZipInfo]


def _read(file: IO[bytes], kind: str | None) -> Any:
    with zipfile.ZipFile(file) as archive:
        source = _Source(archive, _entries(archive, os.fstat(file.fileno()).st_size))
        header = json.loads(archive.read(HEADER).decode(), object_pairs_hook=_distinct)
        tree = _tree(header, kind)
        obj = _decode(tree, source, ())
        _need(not source.unclaimed, (), f"the arrays {sorted(source.unclaimed)[:5]} belong to nothing")
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
    _need(type(version) is int and version >= 1, (), f"format {version!r}")
    if version > FORMAT:
        raise PersistError(f"was written by a newer weald (format {version}, this one reads {FORMAT}); upgrade weald")
    _need(set(header) == HEADER_KEYS and header["kind"] == _kind(header["tree"]), (), "a strange header")
    if kind is not None and header["kind"] != kind:
        raise PersistError(f"holds a {header['kind']}, not a {kind}; give the path of a {kind}")
    return header["tree"]


def _kind(tree: Any) -> str:
    if isinstance(tree, dict) and "@" in tree:
        return str(tree.get("class", tree["@"]))
    return type(tree).__name__


def _decode(node: Any, source: _Source, at: Path_) -> Any:
    """The value of a JSON node."""
    _need(len(at) <= MAX_DEPTH, at[:4], f"nested more than {MAX_DEPTH} deep")
    if isinstance(node, list):
        return [_decode(value, source, (*at, str(i))) for i, value in enumerate(node)]
    if not isinstance(node, dict):
        return node
    if "@" not in node:
        return _decode_parts(node, source, at)
    tag = node["@"]
    _need(isinstance(tag, str) and tag in DECODERS, at, f"unknown tag {tag!r}")
    keys, decoder = DECODERS[tag]
    _need(set(node) == {"@", *keys.split()}, at, f"{tag} with the parts {sorted(node)}")
    return decoder(node, source, at)


def _decode_parts(nodes: Any, source: _Source, at: Path_) -> dict[str, Any]:
    _need(isinstance(nodes, dict), at, f"{type(nodes).__name__} where named parts belong")
    return {name: _decode(value, source, (*at, name)) for name, value in nodes.items()}


def _decode_float(node: Node, source: _Source, at: Path_) -> float:
    _need(node["value"] in ("nan", "inf", "-inf"), at, "a tagged float that is finite")
    return float(node["value"])


def _decode_scalar(node: Node, source: _Source, at: Path_) -> Any:
    dtype, data = _dtype(node["dtype"], SCALAR_KINDS, at), bytes.fromhex(node["hex"])
    _need(len(data) == dtype.itemsize, at, f"{len(data)} bytes for a {dtype}")
    return np.frombuffer(data, dtype)[0]


def _decode_tuple(node: Node, source: _Source, at: Path_) -> tuple[Any, ...]:
    _need(isinstance(node["items"], list), at, "a tuple without items")
    return tuple(_decode(node["items"], source, at))


def _decode_strings(node: Node, source: _Source, at: Path_) -> Array:
    values, shape = node["values"], _shape(node["shape"], at)
    _need(isinstance(values, list) and all(isinstance(value, str) for value in values), at, "no list of strings")
    _need(math.prod(shape) == len(values), at, f"{len(values)} strings for shape {shape}")
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape)


def _decode_array(node: Node, source: _Source, at: Path_) -> Array:
    """Read one entry, after its own header has been found to say what the tree says."""
    dtype, shape, name = _dtype(node["dtype"], ARRAY_KINDS, at), _shape(node["shape"], at), node["entry"]
    _need(name in source.unclaimed, at, f"array {name!r} is missing or used twice")
    info = source.unclaimed.pop(name)
    with source.archive.open(info) as entry:
        _need(np.lib.format.read_magic(entry) == (1, 0), at, f"{name} has an unknown version")
        found, fortran, stored = np.lib.format.read_array_header_1_0(entry)
        _need(found == shape and stored.str == dtype.str, at, f"{name} is {stored} {found}, not {dtype} {shape}")
        size = math.prod(shape)
        _need(info.file_size - entry.tell() == size * dtype.itemsize, at, f"{name} is too long or too short")
        flat = np.empty(size, dtype)
        entry.readinto(flat.view(np.uint8))  # type: ignore[attr-defined]
    return flat.reshape(shape, order="F" if fortran else "C")


def _decode_csr(node: Node, source: _Source, at: Path_) -> Any:
    parts = [_decode(node[name], source, (*at, name)) for name in ("data", "indices", "indptr")]
    shape, makers = _shape(node["shape"], at), {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}
    kinds = [x.dtype.kind if isinstance(x, np.ndarray) and x.ndim == 1 else "" for x in parts]
    _need(kinds[0] in tuple("biufc") and kinds[1:] == ["i", "i"], at, "a sparse matrix of wrong parts")
    _need(node["class"] in makers and len(shape) == 2, at, f"a sparse {node['class']!r} of shape {shape}")
    X = makers[node["class"]](tuple(parts), shape=shape)
    X.check_format(full_check=True)  # compiled code trusts these indices
    return X


def _decode_enum(node: Node, source: _Source, at: Path_) -> Any:
    members = getattr(_class(node["class"], at), "__members__", {})
    _need(node["member"] in members, at, f"{node['class']} has no member {node['member']!r}")
    return members[node["member"]]


def _decode_object(node: Node, source: _Source, at: Path_) -> Any:
    cls, at = _class(node["class"], at), (*at, node["class"])
    values = _decode_parts(node["fields"], source, at)
    expected = {f.name for f in fields(cls) if f.init} if is_dataclass(cls) else None
    _need(set(values) == expected, at, f"the fields {sorted(values)} are not those of {node['class']}")
    return _build(cls, values, at)


def _decode_estimator(node: Node, source: _Source, at: Path_) -> Any:
    cls, at = _class(node["class"], at), (*at, node["class"])
    _need(_is_estimator(cls), at, f"{node['class']} is no estimator")
    params, fitted = (_decode_parts(node[group], source, at) for group in ("params", "fitted"))
    unknown = sorted(set(params) - set(inspect.signature(cls).parameters))
    _need(not unknown, at, f"{node['class']} has no parameter {unknown} (a newer weald may have)")
    unknown = sorted(name for name in fitted if not _is_fitted(cls, name))
    _need(not unknown, at, f"{unknown} are not fitted attributes of {node['class']}")
    estimator = _build(cls, params, at)
    for name, value in fitted.items():
        setattr(estimator, name, value)
    return estimator


Decoder: TypeAlias = Callable[[Node, _Source, Path_], Any]
DECODERS: dict[str, tuple[str, Decoder]] = {
    "array": ("entry dtype shape", _decode_array),
    "csr": ("class shape data indices indptr", _decode_csr),
    "dict": ("items", lambda node, source, at: _decode_parts(node["items"], source, at)),
    "enum": ("class member", _decode_enum),
    "estimator": ("class params fitted", _decode_estimator),
    "float": ("value", _decode_float),
    "object": ("class fields", _decode_object),
    "scalar": ("dtype hex", _decode_scalar),
    "strings": ("shape values", _decode_strings),
    "tuple": ("items", _decode_tuple),
}


def _class(name: Any, at: Path_) -> type:
    """A class of the allow-list, and no other."""
    if not isinstance(name, str) or name not in REGISTRY:
        raise PersistError(
            f"{_place(at)} is of the class {name!r}, unknown here; upgrade weald, or do not trust the file"
        )
    module, _, attribute = REGISTRY[name].partition(":")
    found: type = getattr(import_module(module), attribute)
    return found


def _build(cls: type, values: dict[str, Any], at: Path_) -> Any:
    try:
        return cls(**values)
    except Exception as error:
        raise PersistError(f"{_place(at)} refuses what the file holds: {error}") from error


def _dtype(text: Any, kinds: str, at: Path_) -> np.dtype[Any]:
    dtype = np.dtype(text if isinstance(text, str) else object)
    _need(dtype.kind in kinds and dtype.itemsize > 0 and dtype.str == text, at, f"dtype {text!r} is not allowed")
    return dtype


def _shape(node: Any, at: Path_) -> tuple[int, ...]:
    _need(isinstance(node, list) and all(type(n) is int and n >= 0 for n in node), at, f"{node!r} is no shape")
    return tuple(node)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _need(len(dict(pairs)) == len(pairs), (), "a name stands twice in the header")
    return dict(pairs)


def _need(right: bool, at: Path_, what: str) -> None:
    if not right:
        raise PersistError(f"damaged at {_place(at)}: {what}; restore the file from a copy")


def _place(at: Path_) -> str:
    return ".".join(at) or "the top"
