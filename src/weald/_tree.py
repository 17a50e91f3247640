"""Objects as trees of JSON nodes and arrays: what `weald.persist` writes and reads.

A node is a JSON value, or a dict with a tag ``"@"``: tuples, non-finite floats, numpy scalars, arrays (by reference to
an entry of the archive), CSR matrices, enums, frozen dataclasses, estimators. Only classes named in `REGISTRY` are
ever built, and everything a node claims is checked before it is believed.

    >>> arrays = []
    >>> encode({"x": np.zeros(2), "n": (1, 2)}, arrays)["n"]
    {'@': 'tuple', 'items': [1, 2]}
"""

from __future__ import annotations

import enum
import inspect
import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from weald._typing import Array
from weald.exceptions import PersistError

ARRAY_KINDS, SCALAR_KINDS = "biufcmMSU", "biufcmM"
MAX_DEPTH = 50

REGISTRY: dict[str, str] = {
    "BayesianHierarchicalClustering": "weald.mixtures.hierarchical:BayesianHierarchicalClustering",
    "Bernoulli": "weald.families.bernoulli:Bernoulli",
    "Categorical": "weald.families.categorical:Categorical",
    "Chain": "weald.inference.run:Chain",
    "Components": "weald.mixtures.components:Components",
    "CoverTree": "weald.trees.cover:CoverTree",
    "DPMixture": "weald.mixtures.dp_mixture:DPMixture",
    "DiagonalGaussian": "weald.families.gaussian_diag:DiagonalGaussian",
    "DirichletProcess": "weald.partitions.dp:DirichletProcess",
    "EMState": "weald.topics.em:EMState",
    "FiniteDirichlet": "weald.partitions.dirichlet:FiniteDirichlet",
    "FullGaussian": "weald.families.gaussian_full:FullGaussian",
    "HDP": "weald.topics.hdp:HDP",
    "HDPState": "weald.topics.hdp_gibbs:HDPState",
    "LDA": "weald.topics.lda:LDA",
    "LDAState": "weald.topics.gibbs:LDAState",
    "Mixture": "weald.mixtures.mixture:Mixture",
    "MixtureOfFiniteMixtures": "weald.partitions.mfm:MixtureOfFiniteMixtures",
    "MixtureState": "weald.mixtures.kernels:MixtureState",
    "Multinomial": "weald.families.multinomial:Multinomial",
    "NaiveBayes": "weald.mixtures.naive_bayes:NaiveBayes",
    "NormalisedGeneralisedGamma": "weald.partitions.nggp:NormalisedGeneralisedGamma",
    "OnlineState": "weald.topics.online:OnlineState",
    "ParallelState": "weald.mixtures.parallel:ParallelState",
    "PartitionDraws": "weald.mixtures.partition_draws:PartitionDraws",
    "PartitionState": "weald.mixtures.collapsed:PartitionState",
    "PitmanYor": "weald.partitions.pitman_yor:PitmanYor",
    "Poisson": "weald.families.poisson:Poisson",
    "Posterior": "weald.posterior:Posterior",
    "Product": "weald.families.product:Product",
    "Response": "weald.topics.slda_response:Response",
    "ResponseDraws": "weald.topics.slda_draws:ResponseDraws",
    "SVIState": "weald.topics.hdp_svi:SVIState",
    "Schema": "weald._validate:Schema",
    "Snapshot": "weald.inference.run:Snapshot",
    "SphericalGaussian": "weald.families.gaussian_spherical:SphericalGaussian",
    "Status": "weald.exceptions:Status",
    "SupervisedLDA": "weald.topics.slda:SupervisedLDA",
    "SupervisedState": "weald.topics.slda_gibbs:SupervisedState",
    "TiedGaussian": "weald.families.gaussian_tied:TiedGaussian",
    "Topics": "weald.topics.fold_in:Topics",
    "VariationalState": "weald.topics.variational:VariationalState",
    "Verdict": "weald.exceptions:Verdict",
}

Node: TypeAlias = dict[str, Any]  # a tagged value of the tree
Path_: TypeAlias = tuple[str, ...]  # where in the tree: for messages, and to bound the depth


def encode(x: Any, arrays: list[Array], at: Path_ = ()) -> Any:
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
        parts = {name: encode(getattr(x, name), arrays, (*at, name)) for name in ("data", "indices", "indptr")}
        return {"@": "csr", "class": cls.__name__, "shape": [int(n) for n in x.shape], **parts}
    if cls in (list, tuple):
        items = [encode(value, arrays, (*at, str(i))) for i, value in enumerate(x)]
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
    return {name: encode(value, arrays, (*at, name)) for name, value in values.items()}


def is_estimator(cls: type) -> bool:
    return hasattr(cls, "get_params") and not is_dataclass(cls)


def _is_fitted(cls: type, name: str) -> bool:
    return (name.endswith("_") and not name.startswith("_")) or name in getattr(cls, "_persisted", ())


@dataclass
class Source:
    """An open archive, and its arrays that no node has claimed yet."""

    archive: zipfile.ZipFile
    unclaimed: dict[str, zipfile.ZipInfo]


def kind_of(tree: Any) -> str:
    if isinstance(tree, dict) and "@" in tree:
        return str(tree.get("class", tree["@"]))
    return type(tree).__name__


def decode(node: Any, source: Source, at: Path_ = ()) -> Any:
    """The value of a JSON node."""
    need_right(len(at) <= MAX_DEPTH, at[:4], f"nested more than {MAX_DEPTH} deep")
    if isinstance(node, list):
        return [decode(value, source, (*at, str(i))) for i, value in enumerate(node)]
    if not isinstance(node, dict):
        return node
    if "@" not in node:
        return _decode_parts(node, source, at)
    tag = node["@"]
    need_right(isinstance(tag, str) and tag in DECODERS, at, f"unknown tag {tag!r}")
    keys, decoder = DECODERS[tag]
    need_right(set(node) == {"@", *keys.split()}, at, f"{tag} with the parts {sorted(node)}")
    return decoder(node, source, at)


def _decode_parts(nodes: Any, source: Source, at: Path_) -> dict[str, Any]:
    need_right(isinstance(nodes, dict), at, f"{type(nodes).__name__} where named parts belong")
    return {name: decode(value, source, (*at, name)) for name, value in nodes.items()}


def _decode_float(node: Node, source: Source, at: Path_) -> float:
    need_right(node["value"] in ("nan", "inf", "-inf"), at, "a tagged float that is finite")
    return float(node["value"])


def _decode_scalar(node: Node, source: Source, at: Path_) -> Any:
    dtype, data = _dtype(node["dtype"], SCALAR_KINDS, at), bytes.fromhex(node["hex"])
    need_right(len(data) == dtype.itemsize, at, f"{len(data)} bytes for a {dtype}")
    return np.frombuffer(data, dtype)[0]


def _decode_tuple(node: Node, source: Source, at: Path_) -> tuple[Any, ...]:
    need_right(isinstance(node["items"], list), at, "a tuple without items")
    return tuple(decode(node["items"], source, at))


def _decode_strings(node: Node, source: Source, at: Path_) -> Array:
    values, shape = node["values"], _shape(node["shape"], at)
    need_right(isinstance(values, list) and all(isinstance(value, str) for value in values), at, "no list of strings")
    need_right(math.prod(shape) == len(values), at, f"{len(values)} strings for shape {shape}")
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape)


def _decode_array(node: Node, source: Source, at: Path_) -> Array:
    """Read one entry, after its own header has been found to say what the tree says."""
    dtype, shape, name = _dtype(node["dtype"], ARRAY_KINDS, at), _shape(node["shape"], at), node["entry"]
    need_right(name in source.unclaimed, at, f"array {name!r} is missing or used twice")
    info = source.unclaimed.pop(name)
    with source.archive.open(info) as entry:
        need_right(np.lib.format.read_magic(entry) == (1, 0), at, f"{name} has an unknown version")
        found, fortran, stored = np.lib.format.read_array_header_1_0(entry)
        need_right(found == shape and stored.str == dtype.str, at, f"{name} is {stored} {found}, not {dtype} {shape}")
        size = math.prod(shape)
        need_right(info.file_size - entry.tell() == size * dtype.itemsize, at, f"{name} is too long or too short")
        flat = np.empty(size, dtype)
        entry.readinto(flat.view(np.uint8))  # type: ignore[attr-defined]
    return flat.reshape(shape, order="F" if fortran else "C")


def _decode_csr(node: Node, source: Source, at: Path_) -> Any:
    parts = [decode(node[name], source, (*at, name)) for name in ("data", "indices", "indptr")]
    shape, makers = _shape(node["shape"], at), {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}
    kinds = [x.dtype.kind if isinstance(x, np.ndarray) and x.ndim == 1 else "" for x in parts]
    need_right(kinds[0] in tuple("biufc") and kinds[1:] == ["i", "i"], at, "a sparse matrix of wrong parts")
    need_right(node["class"] in makers and len(shape) == 2, at, f"a sparse {node['class']!r} of shape {shape}")
    X = makers[node["class"]](tuple(parts), shape=shape)
    X.check_format(full_check=True)  # compiled code trusts these indices
    return X


def _decode_enum(node: Node, source: Source, at: Path_) -> Any:
    members = getattr(class_of(node["class"], at), "__members__", {})
    need_right(node["member"] in members, at, f"{node['class']} has no member {node['member']!r}")
    return members[node["member"]]


def _decode_object(node: Node, source: Source, at: Path_) -> Any:
    cls, at = class_of(node["class"], at), (*at, node["class"])
    values = _decode_parts(node["fields"], source, at)
    expected = {f.name for f in fields(cls) if f.init} if is_dataclass(cls) else None
    need_right(set(values) == expected, at, f"the fields {sorted(values)} are not those of {node['class']}")
    return _build(cls, values, at)


def _decode_estimator(node: Node, source: Source, at: Path_) -> Any:
    cls, at = class_of(node["class"], at), (*at, node["class"])
    need_right(is_estimator(cls), at, f"{node['class']} is no estimator")
    params, fitted = (_decode_parts(node[group], source, at) for group in ("params", "fitted"))
    unknown = sorted(set(params) - set(inspect.signature(cls).parameters))
    need_right(not unknown, at, f"{node['class']} has no parameter {unknown} (a newer weald may have)")
    unknown = sorted(name for name in fitted if not _is_fitted(cls, name))
    need_right(not unknown, at, f"{unknown} are not fitted attributes of {node['class']}")
    estimator = _build(cls, params, at)
    for name, value in fitted.items():
        setattr(estimator, name, value)
    return estimator


Decoder: TypeAlias = Callable[[Node, Source, Path_], Any]
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


def class_of(name: Any, at: Path_) -> type:
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
    need_right(dtype.kind in kinds and dtype.itemsize > 0 and dtype.str == text, at, f"dtype {text!r} is not allowed")
    return dtype


def _shape(node: Any, at: Path_) -> tuple[int, ...]:
    need_right(isinstance(node, list) and all(type(n) is int and n >= 0 for n in node), at, f"{node!r} is no shape")
    return tuple(node)


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    need_right(len(dict(pairs)) == len(pairs), (), "a name stands twice in the header")
    return dict(pairs)


def need_right(right: bool, at: Path_, what: str) -> None:
    if not right:
        raise PersistError(f"damaged at {_place(at)}: {what}; restore the file from a copy")


def _place(at: Path_) -> str:
    return ".".join(at) or "the top"
