from __future__ import annotations

import enum
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.base import BaseEstimator

import weald
from weald import _tree
from weald._progress import Event
from weald.exceptions import ParameterError, PersistError, Status, StatusWarning, Verdict
from weald.inference.run import AbstractKernel, Chain, Snapshot, run
from weald.persist import Checkpoint, load, read, save, write
from weald.posterior import Posterior


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Point:
    x: float
    tags: tuple[str, ...] = ()
    inner: Any = None
    derived: float = field(default=0.0, init=False)

    def __post_init__(self):
        if self.x == 666:
            raise ValueError("x must not be 666")


class Toy(BaseEstimator):
    _persisted = ("_kept",)

    def __init__(self, k=2, prior=None, random_state=None):
        self.k = k
        self.prior = prior
        self.random_state = random_state

    def fit(self, X):
        self.n_features_in_ = X.shape[1]
        self.feature_names_in_ = np.array(["a", "β"], dtype=object)
        self.means_ = X[: self.k].copy()
        self.point_ = Point(1.5, ("t",), {"w": np.arange(3)})
        self._kept = (1, 2.5)
        self._lost = lambda: None
        self.cache = object()
        return self


class Outsider(BaseEstimator):
    pass


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    here = {cls.__name__: f"{__name__}:{cls.__name__}" for cls in (Colour, Point, Toy)}
    monkeypatch.setattr(_tree, "REGISTRY", {**_tree.REGISTRY, **here})


def round_trip(obj, path):
    write(path, obj)
    return read(path)


def same(a, b) -> bool:
    """Equality of trees, types and bits included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if a.dtype.kind == "O":
            return a.shape == b.shape and a.tolist() == b.tolist()
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if sparse.issparse(a):
        return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a.toarray(), b.toarray())
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, float):
        return a.hex() == b.hex()
    if isinstance(a, Point):
        return same(vars(a), vars(b))
    return a == b


dtypes = st.one_of(hnp.boolean_dtypes(), hnp.integer_dtypes(), hnp.floating_dtypes(sizes=(32, 64)),
                   hnp.complex_number_dtypes(sizes=(64,)), hnp.unicode_string_dtypes(max_len=4),
                   hnp.datetime64_dtypes())  # fmt: skip
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
numpy_scalars = st.sampled_from(
    [np.float64("nan"), np.float32(0.1), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True), np.complex128(1j),
     np.datetime64("2020-01-01T00", "h"), np.float64(-0.0)]
)  # fmt: skip
csr = st.builds(
    lambda n, d, seed, make: make(sparse.random(n, d, 0.4, format="csr", rng=np.random.default_rng(seed))),
    st.integers(0, 4), st.integers(1, 4), st.integers(0, 9), st.sampled_from([sparse.csr_array, sparse.csr_matrix]),
)  # fmt: skip
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6), numpy_scalars, arrays, csr,
    st.sampled_from(list(Colour)),
)  # fmt: skip
keys = st.one_of(st.text(max_size=4), st.just("@"))
trees = st.recursive(
    leaves,
    lambda t: st.one_of(
        st.lists(t, max_size=3),
        st.lists(t, max_size=3).map(tuple),
        st.dictionaries(keys, t, max_size=3),
        st.builds(Point, st.floats(), st.just(("a",)), t),
    ),
    max_leaves=12,
)


@given(trees)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_any_tree_survives(tmp_path_factory, tree):
    path = tmp_path_factory.getbasetemp() / "tree.weald"
    assert same(round_trip(tree, path), tree)


@pytest.mark.parametrize(
    "value",
    [10**300, -(2**64), 5e-324, float("nan"), float("inf"), -float("inf"), "\ud800", "", (), [], {}, ((),),
     {"@": {"@": 1}}, {"@": "array", "entry": "0.npy"}, np.empty((0, 3)), np.array(1.0), np.array(["ab", ""]),
     np.zeros(2, ">f4"), np.array(["x", "yy"], dtype=object).reshape(2, 1), np.empty(0, object)],
)  # fmt: skip
def test_corner_values(tmp_path, value):
    assert same(round_trip(value, tmp_path / "v"), value)


def test_memory_layout(tmp_path):
    X = np.arange(12.0).reshape(3, 4)
    assert round_trip(X.T, tmp_path / "v").flags.f_contiguous
    for x in (X, X.T, X[::2, ::-1], X[:, 1]):
        y = round_trip(x, tmp_path / "v")
        np.testing.assert_array_equal(y, x)
        assert y.flags.writeable
        assert y.flags.owndata or y.base.flags.owndata


def test_mappings_become_dicts_and_numpy_strings_str(tmp_path):
    assert same(round_trip(MappingProxyType({"a": np.str_("b")}), tmp_path / "v"), {"a": "b"})


def test_weald_values(tmp_path):
    status = Status(Verdict.CAUTION, "m", ("try",), {"rhat": float("nan")})
    posterior = Posterior({"a": np.ones((2, 3))}, {"lp": np.zeros((2, 5))}, status, {"seed": None, "v": {"n": "1"}}, 2)
    again = round_trip({"p": posterior}, tmp_path / "v")["p"]
    assert type(again) is Posterior
    assert again.status.verdict is Verdict.CAUTION
    assert same(dict(again.draws), posterior.draws)
    assert same(again.attrs, posterior.attrs)
    assert again.status.advice == ("try",)
    assert again.warmup == 2


def test_same_object_same_bytes(tmp_path):
    for name in "ab":
        write(tmp_path / name, {"x": np.arange(4), "y": Point(2.0)})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [lambda: 0]}, "a.0"),
        ({"a": object()}, "a"),
        ({1: 2}, "keys must be str"),
        ({"a": {3, 4}}, "set"),
        (b"bytes", "bytes"),
        (np.array([None]), "object"),
        (np.array(["a", 1], object), "object"),
        (np.zeros(2, "f8,i4"), "dtype"),
        (np.ma.zeros(2), "MaskedArray"),
        (sparse.csc_array(np.eye(2)), "csc_array"),
        (np.dtype("f8"), "Float64DType"),
        (Outsider(), "Outsider"),
        (Point(1.0, inner=Outsider()), "Point.inner"),
        ([10**5000], "digits"),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path, value, where):
    with pytest.raises(PersistError, match=where):
        write(tmp_path / "v", value)
    assert not list(tmp_path.iterdir())


def test_too_deep_or_circular(tmp_path):
    loop: list = []
    loop.append(loop)
    with pytest.raises(PersistError, match="nested more than"):
        write(tmp_path / "v", loop)


# Estimators


def test_estimator(tmp_path):
    X = np.random.default_rng(0).normal(size=(5, 2))
    toy = Toy(k=3, prior=Point(0.5), random_state=7).fit(X)
    save(toy, tmp_path / "toy.weald")
    again = load(tmp_path / "toy.weald")
    assert type(again) is Toy
    assert again.get_params() == toy.get_params()
    assert same(again.means_, toy.means_)
    assert same(again.feature_names_in_, toy.feature_names_in_)
    assert same(again.point_, toy.point_)
    assert again._kept == (1, 2.5)
    assert again.n_features_in_ == 2
    assert not hasattr(again, "_lost")
    assert not hasattr(again, "cache")


def test_unfitted_and_nested_estimators(tmp_path):
    save(Toy(prior=Toy(k=9)), tmp_path / "toy")
    again = load(tmp_path / "toy")
    assert again.prior.k == 9
    assert not hasattr(again, "means_")


@pytest.mark.parametrize("state", [np.random.default_rng(0), np.random.RandomState(0)])
def test_spent_generators_become_none(tmp_path, state):
    save(Toy(random_state=state), tmp_path / "toy")
    assert load(tmp_path / "toy").random_state is None


def test_save_and_load_are_for_estimators(tmp_path):
    with pytest.raises(PersistError, match="dict"):
        save({"a": 1}, tmp_path / "v")
    write(tmp_path / "v", Point(1.0))
    with pytest.raises(PersistError, match=r"v: holds a Point, not an estimator"):
        load(tmp_path / "v")


def test_kind(tmp_path):
    write(tmp_path / "v", Point(1.0))
    assert read(tmp_path / "v", "Point").x == 1
    with pytest.raises(PersistError, match="holds a Point, not a Snapshot"):
        read(tmp_path / "v", "Snapshot")


def test_no_file(tmp_path):
    for function in (read, load):
        with pytest.raises(FileNotFoundError):
            function(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="folder"):
        write(tmp_path / "none" / "v", 1)


# Hostile files


def rebuild(path: Path, change=None, *, entries=None, **options) -> Path:
    """Write an archive as weald does, after `change` has had its way with the header."""
    with zipfile.ZipFile(path) as archive:
        stored = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(stored["header.json"])
    if change is not None:
        header = change(header) or header
    stored["header.json"] = json.dumps(header).encode()
    stored.update(entries or {})
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in stored.items():
            if data is not None:
                archive.writestr(zipfile.ZipInfo(name), data, options.get("compression"))
    return path


def refused(path: Path, match: str = "damaged") -> None:
    with pytest.raises(PersistError, match=match) as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.fixture
def good(tmp_path) -> Path:
    path = tmp_path / "good.weald"
    X = sparse.csr_array(np.eye(3))
    write(path, {"a": np.arange(6.0).reshape(2, 3), "p": Point(1.0, ("t",), Colour.RED), "n": np.float32(2), "X": X})
    return path


def test_rebuilt_file_is_readable(good):
    assert same(read(rebuild(good))["a"], np.arange(6.0).reshape(2, 3))


def test_truncated_anywhere(good):
    data = good.read_bytes()
    for size in range(0, len(data), 7):
        good.write_bytes(data[:size])
        refused(good)


def test_flipped_bytes_are_refused_or_harmless(good):
    before, data = read(good), good.read_bytes()
    harmless = 0
    for i in range(len(data)):
        good.write_bytes(data[:i] + bytes([data[i] ^ 0x55]) + data[i + 1 :])
        try:
            assert same(read(good), before)
            harmless += 1
        except PersistError:
            pass
    assert harmless < len(data) / 3  # dates and attributes in the zip records


def test_random_bytes(tmp_path):
    rng = np.random.default_rng(0)
    for size in (0, 1, 22, 100, 5000):
        (tmp_path / "v").write_bytes(rng.bytes(size))
        refused(tmp_path / "v", "not a weald file")


def test_pickle_is_not_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "boom"),)

    (tmp_path / "v").write_bytes(pickle.dumps(Bomb()))
    refused(tmp_path / "v")
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([Bomb()], object), allow_pickle=True)
    write(tmp_path / "w", {"a": np.arange(1)})
    refused(rebuild(tmp_path / "w", entries={"0.npy": buffer.getvalue()}), "object")

    def declare_object(header):
        header["tree"]["a"]["dtype"] = "|O"

    refused(rebuild(tmp_path / "w", declare_object), "not allowed")
    assert not (tmp_path / "boom").exists()


def set_in(*keys, to):
    def change(header):
        node = header
        for key in keys[:-1]:
            node = node[key]
        node[keys[-1]] = to

    return change


def drop(*keys):
    def change(header):
        node = header
        for key in keys[:-1]:
            node = node[key]
        del node[keys[-1]]

    return change


HEADERS = {
    "magic": (set_in("magic", to="pickle"), "magic"),
    "no magic": (drop("magic"), "magic"),
    "newer": (set_in("format", to=2), "written by a newer weald.*upgrade"),
    "format text": (set_in("format", to="1"), "format"),
    "format true": (set_in("format", to=True), "format"),
    "format zero": (set_in("format", to=0), "format"),
    "no kind": (drop("kind"), "header"),
    "wrong kind": (set_in("kind", to="Point"), "header"),
    "extra key": (set_in("more", to=1), "header"),
    "list": (lambda header: [header], "magic"),
    "unknown class": (set_in("tree", "p", "class", to="Line"), "Line.*upgrade"),
    "outside class": (set_in("tree", "p", "class", to="os:system"), "os:system"),
    "builtin class": (set_in("tree", "p", "class", to="builtins:eval"), "do not trust"),
    "class not text": (set_in("tree", "p", "class", to=["Point"]), "class"),
    "enum as dataclass": (set_in("tree", "p", "class", to="Colour"), "Colour"),
    "estimator as dataclass": (set_in("tree", "p", "class", to="Toy"), "Toy"),
    "dataclass as enum": (set_in("tree", "p", "fields", "inner", "class", to="Point"), "member"),
    "no such member": (set_in("tree", "p", "fields", "inner", "member", to="GREEN"), "GREEN"),
    "enum internals": (set_in("tree", "p", "fields", "inner", "member", to="__class__"), "member"),
    "missing field": (drop("tree", "p", "fields", "tags"), "fields"),
    "extra field": (set_in("tree", "p", "fields", "more", to=1), "fields"),
    "field not for init": (set_in("tree", "p", "fields", "derived", to=1), "fields"),
    "fields not named": (set_in("tree", "p", "fields", to=[1]), "named parts"),
    "refused by class": (set_in("tree", "p", "fields", "x", to=666), "must not be 666"),
    "unknown tag": (set_in("tree", "p", "@", to="pickle"), "tag"),
    "tag not text": (set_in("tree", "p", "@", to={}), "tag"),
    "tag with wrong parts": (set_in("tree", "p", "@", to="array"), "parts"),
    "estimator without class": (
        set_in("tree", "p", to={"@": "estimator", "class": "Point", "params": {}, "fitted": {}}), "no estimator"),
    "shape": (set_in("tree", "a", "shape", to=[3, 2]), r"\(2, 3\), not"),
    "huge shape": (set_in("tree", "a", "shape", to=[10**12, 10**12]), "not float64"),
    "negative shape": (set_in("tree", "a", "shape", to=[-2, -3]), "no shape"),
    "shape of floats": (set_in("tree", "a", "shape", to=[2.0, 3]), "no shape"),
    "shape not list": (set_in("tree", "a", "shape", to=6), "no shape"),
    "dtype": (set_in("tree", "a", "dtype", to="<i8"), "int64"),
    "dtype structured": (set_in("tree", "a", "dtype", to="f8,f8"), "not allowed"),
    "dtype alias": (set_in("tree", "a", "dtype", to="float"), "not allowed"),
    "dtype number": (set_in("tree", "a", "dtype", to=8), "not allowed"),
    "dtype empty": (set_in("tree", "a", "dtype", to="<U0"), "not allowed"),
    "dtype nonsense": (set_in("tree", "a", "dtype", to="zzz"), "damaged"),
    "array missing": (set_in("tree", "a", "entry", to="9.npy"), "missing"),
    "array elsewhere": (set_in("tree", "a", "entry", to="../../etc/passwd"), "missing"),
    "array twice": (set_in("tree", "a", "entry", to="1.npy"), "damaged"),
    "array not named": (set_in("tree", "a", "entry", to=[1]), "damaged"),
    "array not used": (drop("tree", "a"), "belong to nothing"),
    "scalar too long": (set_in("tree", "n", "hex", to="00" * 8), "8 bytes"),
    "scalar not hex": (set_in("tree", "n", "hex", to="xy"), "damaged"),
    "scalar text": (set_in("tree", "n", "dtype", to="<U1"), "not allowed"),
    "float": (set_in("tree", "n", to={"@": "float", "value": "1e3"}), "finite"),
    "tuple": (set_in("tree", "p", "fields", "tags", "items", to="abc"), "items"),
    "strings": (set_in("tree", "n", to={"@": "strings", "shape": [2], "values": ["a"]}), "1 strings"),
    "strings of numbers": (set_in("tree", "n", to={"@": "strings", "shape": [1], "values": [1]}), "strings"),
    "strings without end": (set_in("tree", "n", to={"@": "strings", "shape": [10**15], "values": []}), "strings"),
    "csr class": (set_in("tree", "X", "class", to="coo_array"), "sparse"),
    "csr shape": (set_in("tree", "X", "shape", to=[3, 1]), "damaged"),
    "csr rows": (set_in("tree", "X", "shape", to=[10**15, 3]), "damaged"),
    "csr three axes": (set_in("tree", "X", "shape", to=[3, 1, 1]), "sparse"),
    "csr of text": (set_in("tree", "X", "data", to="text"), "wrong parts"),
    "nan": (set_in("tree", "p", "fields", "x", to={"@": "float"}), "parts"),
}  # fmt: skip


@pytest.mark.parametrize("label", HEADERS)
def test_hostile_header(good, label):
    change, match = HEADERS[label]
    refused(rebuild(good, change), match)


def test_csr_indices_are_checked(tmp_path):
    X = sparse.csr_array(np.eye(3))
    X.indices[1] = 77
    write(tmp_path / "v", X)
    refused(tmp_path / "v")


def npy(x, **options) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, x, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (npy(np.zeros((3, 2))), "not float64"),
        (npy(np.zeros((2, 3), np.int64)), "int64"),
        (npy(np.zeros((2, 3))) + b"more", "too long"),
        (npy(np.zeros((2, 3)))[:-8], "too short"),
        (npy(np.zeros((2, 3)), version=(2, 0)), "version"),
        (b"", "damaged"),
        (b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535, "damaged"),
        (b"\x93NUMPY\x01\x00\x10\x27" + b"-" * 10000, "damaged"),
        (b"\x93NUMPY\x01\x00\x10\x00" + b"__import__('os')", "damaged"),
        (b"cos\nsystem\n(S'true'\ntR.", "damaged"),
    ],
)
def test_hostile_array(good, data, match):
    refused(rebuild(good, entries={"0.npy": data}), match)


def test_missing_and_extra_entries(good):
    data = good.read_bytes()
    for entries, match in [
        ({"0.npy": None}, "missing"),
        ({"44.npy": npy(np.zeros(2))}, "44.npy"),
        ({"../evil.npy": npy(np.zeros(2))}, "strange"),
        ({"/tmp/evil.npy": b""}, "strange"),
        ({"00.npy": b""}, "strange"),
        ({"1.py": b""}, "strange"),
        ({"folder/": b""}, "strange"),
        ({"header.json": None}, "begin"),
        ({"header.json": b"\xff\xfe"}, "damaged"),
        ({"header.json": b"{"}, "damaged"),
        ({"header.json": b"[" * 200000}, "damaged"),
        ({"header.json": b'{"a":' * 200000}, "damaged"),
        ({"header.json": b"9" * 10000}, "damaged"),
        ({"header.json": b'{"magic": "weald", "magic": "weald"}'}, "twice"),
        ({"header.json": b"null"}, "magic"),
    ]:
        good.write_bytes(data)
        refused(rebuild(good, entries=entries), match)


@pytest.mark.parametrize("node", [[], {"a": 0}, {"@": "tuple", "items": [0]}])
def test_deep_nesting(good, node):
    tree: Any = 0
    for _ in range(60):
        tree = {"a": tree} if "a" in node else {"@": "tuple", "items": [tree]} if "@" in node else [tree]
    refused(rebuild(good, lambda header: {**header, "tree": tree, "kind": _tree.kind_of(tree)}), "nested more than")


def test_not_first_entry(tmp_path):
    with zipfile.ZipFile(tmp_path / "v", "w") as archive:
        archive.writestr("0.npy", b"")
        archive.writestr("header.json", b"{}")
    refused(tmp_path / "v", "begin")
    with zipfile.ZipFile(tmp_path / "v", "w"):
        pass
    refused(tmp_path / "v", "begin")


def test_repeated_names(good):
    with zipfile.ZipFile(good, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("0.npy", npy(np.ones((2, 3))))
    refused(good, "repeated")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_compressed_entries_are_not_unpacked(good, method):
    bomb = npy(np.zeros((2, 3))) + bytes(10**6)
    refused(rebuild(good, entries={"0.npy": bomb}, compression=method), "compressed")
    write(good, np.frombuffer(np.random.default_rng(0).bytes(500), np.uint8).copy())
    path = rebuild(good, compression=method)
    with zipfile.ZipFile(path) as archive:
        assert sum(info.file_size for info in archive.infolist()) <= path.stat().st_size
    refused(path, "compressed")


def test_stated_sizes_are_not_believed(good):
    data = bytearray(good.read_bytes())
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(b"0.npy"))
    for field_at in (20, 24):  # both sizes in the central directory: 4 GB in a file of 2 kB
        data[at + field_at : at + field_at + 4] = (2**32 - 2).to_bytes(4, "little")
    good.write_bytes(data)
    refused(good, "larger than the file")


def test_encrypted_flag(good):
    data = bytearray(good.read_bytes())
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    good.write_bytes(data)
    refused(good, "do not trust")


def hostile_estimator(tmp_path, change) -> Path:
    save(Toy().fit(np.eye(2)), tmp_path / "toy")
    return rebuild(tmp_path / "toy", change)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (set_in("tree", "params", "callback", to=1), "callback.*newer"),
        (set_in("tree", "params", to=[1]), "named parts"),
        (set_in("tree", "fitted", "fit", to=1), "'fit'"),
        (set_in("tree", "fitted", "__class__", to=1), "__class__"),
        (set_in("tree", "fitted", "_lost", to=1), "_lost"),
        (set_in("tree", "class", to="Outsider"), "header"),
        (
            lambda header: {**header, "kind": "Outsider", "tree": {**header["tree"], "class": "Outsider"}},
            "unknown here",
        ),
    ],
)
def test_hostile_estimator(tmp_path, change, match):
    refused(hostile_estimator(tmp_path, change), match)


def test_a_parameter_added_later_takes_its_default(tmp_path):
    assert load(hostile_estimator(tmp_path, drop("tree", "params", "k"))).k == 2


def test_registered_but_absent(good, monkeypatch):
    monkeypatch.setitem(_tree.REGISTRY, "Point", "weald.nowhere:Point")
    refused(good, "nowhere")


@pytest.mark.parametrize("name", list(_tree.REGISTRY))
def test_registered_classes_are_there(name):
    cls = _tree.class_of(name, ())
    assert f"{cls.__module__}:{cls.__qualname__}" == _tree.REGISTRY[name]
    assert issubclass(cls, enum.Enum) or _tree.is_estimator(cls) or cls.__dataclass_params__.frozen


@pytest.mark.parametrize(
    "options",
    [{"inference": "em"}, {"inference": "gibbs", "draws": 5, "warmup": 2, "chains": 2, "covariance": "diag"},
     {"inference": "vb", "covariance": "spherical"}, {"covariance": "tied", "prior": {"kappa": 0.5}}],
)  # fmt: skip
def test_mixture_predicts_the_same(tmp_path, options):
    X = np.random.default_rng(0).normal(size=(60, 2)) + 6 * (np.arange(60) % 2)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)
        mixture = weald.Mixture(2, random_state=np.random.default_rng(0), max_iter=20, **options).fit(X)
    save(mixture, tmp_path / "m.weald")
    again = load(tmp_path / "m.weald")
    assert same(again.predict_proba(X), mixture.predict_proba(X))
    assert same(again.score_samples(X), mixture.score_samples(X))
    assert same(dict(again.posterior_.draws), dict(mixture.posterior_.draws))
    assert again.get_params() == {**mixture.get_params(), "random_state": None}
    fitted = {name for name in vars(mixture) if name.endswith("_")}
    assert fitted == {name for name in vars(again) if name.endswith("_")}


def test_naive_bayes_of_a_mixed_table_predicts_the_same(tmp_path):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"x": [0.1, 0.2, 5.0, np.nan], "c": ["u", "u", "v", "w"], "n": [1, 2, 8, 9]})
    model = weald.NaiveBayes(family="mixed").fit(X, np.array(["a", "a", "b", "b"], dtype=object))
    save(model, tmp_path / "m.weald")
    again = load(tmp_path / "m.weald")
    assert same(again.predict_proba(X), model.predict_proba(X))
    assert same(again.predict(X), model.predict(X))
    assert again.feature_names_in_.tolist() == ["x", "c", "n"]


# Atomicity and checkpoints


def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "v"
    write(path, 1)

    def full(*args, **kwargs):
        raise OSError("disk full")

    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(OSError, match="disk full"):
                write(path, 2)
        assert read(path) == 1
        assert [p.name for p in tmp_path.iterdir()] == ["v"]


def test_links_are_followed(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "store" / "v")
    write(tmp_path / "link", 3)
    assert (tmp_path / "link").is_symlink()
    assert read(tmp_path / "store" / "v") == 3


KILLED = """
import os, sys, numpy as np
import weald
from weald import persist
persist.write(sys.argv[1], {"i": 0, "x": np.zeros(200_000)})
at = {"in an array": (np.lib.format, "write_array"), "in fsync": (os, "fsync"), "in replace": (os, "replace")}
module, name = at[sys.argv[2]]
real = getattr(module, name)
def killer(*args, **kwargs):
    if sys.argv[3] == "after":
        real(*args, **kwargs)
    os.kill(os.getpid(), 9)
setattr(module, name, killer)
persist.write(sys.argv[1], {"i": 1, "x": np.ones(200_000)})
"""


@pytest.mark.parametrize(
    ("where", "when", "survivor"),
    [("in an array", "after", 0), ("in fsync", "before", 0), ("in replace", "before", 0), ("in replace", "after", 1)],
)
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_killed_writer_leaves_a_whole_file(tmp_path, where, when, survivor):
    path = tmp_path / "v"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), where, when], check=False)
    assert done.returncode == -signal.SIGKILL
    assert read(path)["i"] == survivor
    assert (read(path)["x"] == survivor).all()


def event(phase="step", sweep=1, snapshot=lambda: {"sweep": 0}) -> Event:
    return Event(phase, 0, sweep, 100, 1, {}, snapshot)


def test_checkpoint_by_sweeps(tmp_path):
    path, calls = tmp_path / "c", []

    def snapshot_at(sweep):
        return lambda: calls.append(sweep) or {"sweep": sweep}

    checkpoint = Checkpoint(path, every=3)
    for sweep in range(8):
        phase = "begin" if sweep == 0 else "step"
        assert checkpoint(event(phase, sweep, snapshot_at(sweep))) is None
    assert calls == [3, 6]
    assert read(path) == {"sweep": 6}
    checkpoint(event("end", 7, snapshot_at(7)))
    assert read(path) == {"sweep": 7}
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_checkpoint_by_seconds(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    checkpoint, written = Checkpoint(tmp_path / "c", every_seconds=5), []
    for sweep in range(1, 13):
        now[0] += 1
        checkpoint(event("step", sweep, lambda sweep=sweep: written.append(sweep)))
    assert written == [5, 10]


@pytest.mark.parametrize(
    "options", [{"every": 0}, {"every": 2.5}, {"every_seconds": 0}, {"every_seconds": float("nan")}]
)
def test_checkpoint_wrong_parameters(tmp_path, options):
    with pytest.raises(ParameterError, match="every"):
        Checkpoint(tmp_path / "c", **options)


def test_checkpoint_needs_its_folder_at_once(tmp_path):
    with pytest.raises(FileNotFoundError):
        Checkpoint(tmp_path / "none" / "c")


class Walk(AbstractKernel):
    def init(self, rng):
        return {"x": rng.normal(size=2)}

    def step(self, rng, state):
        return {"x": state["x"] + rng.normal(size=2)}, {"lp": float(state["x"].sum())}


def test_resumed_run_is_the_uninterrupted_one(tmp_path):
    options = {"key": np.uint64(2**64 - 5), "sweeps": 20, "chains": 2, "collect": lambda state: {"x": state["x"]}}
    whole = run(Walk(), **options)
    for stop_at in (7, 20):
        callbacks = [Checkpoint(tmp_path / "c", every=1), lambda e, at=stop_at: e.chain == 1 and e.sweep == at]
        run(Walk(), callbacks=callbacks, **options)
        snapshot = read(tmp_path / "c", "Snapshot")
        assert type(snapshot) is Snapshot
        assert [type(chain) for chain in snapshot.done] == [Chain]
        resumed = run(Walk(), resume=snapshot, **options)
        assert len(resumed) == 2
        for a, b in zip(whole, resumed, strict=True):
            assert same(dict(a.draws), dict(b.draws))
            assert same(dict(a.stats), dict(b.stats))
