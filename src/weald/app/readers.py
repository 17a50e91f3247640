"""Tables in and out: CSV, TSV, Parquet, NPY and NPZ files, plain or packed (.gz, .xz), and standard input.

A `Table` is names and numpy columns. A column is float64, int64, bool, text (object array of str, None = missing) or
time (datetime64); missing numbers are NaN. Parquet and CSV need pyarrow; NPY and NPZ do not. The columns of a plain
(n, d) array are called x0, x1, ...

Types of a CSV column are inferred from the whole file, not from its first block. Files are written beside their
target and moved into place, so that an interrupted run leaves the old file or none.

    >>> table = Table(("height", "member"), {"height": np.array([1.7, 1.8]), "member": np.array([True, False])})
    >>> table.numeric().shape, table.kind("member")
    ((2, 2), 'bool')
"""

from __future__ import annotations

import contextlib
import difflib
import gzip
import io
import lzma
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from weald._atomic import replacing
from weald._typing import Array, FloatArray, PathLike
from weald.exceptions import DataError, ParameterError, need

SUFFIXES = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".npy": "npy", ".npz": "npz"}
MAGIC = {b"PAR1": "parquet", b"\x93NUMPY": "npy", b"PK\x03\x04": "npz"}
KINDS = {"f": "float", "i": "int", "u": "int", "b": "bool", "O": "text", "M": "time", "m": "time"}
UNPACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".xz": lzma.decompress}
MAX_BLOCK = 2**31 - 1  # bytes of CSV whose types are inferred together


Read: TypeAlias = tuple[Sequence[str], Callable[[Sequence[str]], dict[str, Array]]]  # names; cells of some of them


@dataclass(frozen=True)
class Table:
    """Named columns of equal length.

    Parameters
    ----------
    names : tuple of str
        Column names, in the order of the file.
    columns : mapping of str to array of shape (n,)
        The cells.
    """

    names: tuple[str, ...]
    columns: Mapping[str, Array]

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return len(self.columns[self.names[0]]) if self.names else 0

    def kind(self, name: str) -> str:
        """One of float, int, bool, text, time."""
        return KINDS[self.columns[name].dtype.kind]

    def select(self, names: Sequence[str]) -> Table:
        """The table with only these columns, in this order."""
        check_names(names, self.names)
        return Table(tuple(names), {name: self.columns[name] for name in names})

    def numeric(self) -> FloatArray:
        """(n, d) float64 matrix of numbers and booleans; missing cells are NaN."""
        bad = [name for name in self.names if self.kind(name) in ("text", "time")]
        if bad:
            raise DataError(
                f"{_list(bad)} {'holds' if len(bad) == 1 else 'hold'} {self.kind(bad[0])}, not numbers: "
                "leave it out, or use the mixed family for text"
            )
        return np.column_stack([self.columns[name].astype(np.float64) for name in self.names])

    def arrow(self) -> Any:
        """The table as a `pyarrow.Table`; missing cells are null."""
        return to_arrow(self.columns)


def read_table(path: PathLike, columns: Sequence[str] | None = None, exclude: Sequence[str] | None = None) -> Table:
    """Read a table from a file, or from standard input.

    Parameters
    ----------
    path : path or str
        A .csv, .tsv, .parquet, .npy or .npz file, also with .gz or .xz behind; ``"-"`` reads standard input
        (CSV, or Parquet, NPY, NPZ by their first bytes).
    columns : sequence of str, optional
        Columns to keep, in this order; all by default.
    exclude : sequence of str, optional
        Columns to leave out.

    Returns
    -------
    Table
        At least one row and one column.
    """
    name = "standard input" if str(path) == "-" else str(path)
    with clear_errors(name):
        source, form = _open(path)
        present, cells = READERS[form](source, name)
        chosen = _choose(present, name, columns, exclude)
        table = Table(tuple(chosen), cells(chosen))
    if table.n_rows == 0:
        raise DataError(f"{name} has no rows")
    return table


def write_table(path: PathLike, columns: Mapping[str, Array]) -> None:
    """Write columns to a .csv, .tsv, .parquet or .npz file, whole or not at all.

    Parameters
    ----------
    path : path or str
        The suffix chooses the format.
    columns : mapping of str to array of shape (n,)
        The cells.
    """
    form = SUFFIXES.get(Path(path).suffix.lower())
    writers: dict[str | None, Callable[[IO[bytes]], None]] = {
        "csv": lambda sink: _write_csv(sink, columns, ","),
        "tsv": lambda sink: _write_csv(sink, columns, "\t"),
        "parquet": lambda sink: _write_parquet(sink, columns),
        "npz": lambda sink: _write_npz(sink, columns),
    }
    if form not in writers:
        raise ParameterError(f"cannot write {path}: the name must end in .csv, .tsv, .parquet or .npz")
    with replacing(path) as sink:
        writers[form](sink)


def to_arrow(columns: Mapping[str, Array]) -> Any:
    """Columns as a `pyarrow.Table`; NaN and None become null."""
    pa = _pyarrow()
    return pa.table({name: pa.array(cells, from_pandas=True) for name, cells in columns.items()})


def check_names(wanted: Sequence[str], present: Sequence[str]) -> None:
    """Raise a `DataError` that says which wanted columns are missing and what they may have meant."""
    missing = [name for name in wanted if name not in present]
    if not missing:
        return
    near = [match for name in missing for match in difflib.get_close_matches(name, present, n=2, cutoff=0.5)]
    shown = ", ".join(present[:20]) + (", ..." if len(present) > 20 else "")
    hint = f"did you mean {_list(list(dict.fromkeys(near)))}? " if near else ""
    raise DataError(f"no column {_list(missing)}; {hint}the columns are: {shown}")


def _open(path: PathLike) -> tuple[Any, str]:
    """The bytes or the path to read from, and the format."""
    if str(path) == "-":
        return _sniff(sys.stdin.buffer.read())
    path = Path(path)
    if not path.exists():
        raise DataError(f"there is no file {path}")
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a table")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    unpack = UNPACK.get(suffixes[-1]) if suffixes else None
    form = SUFFIXES.get(suffixes[-2] if unpack and len(suffixes) > 1 else suffixes[-1] if suffixes else "")
    if form is None:
        known = ", ".join(SUFFIXES)
        raise DataError(
            f"cannot tell the format of {path}: the name must end in {known}, or one of these with .gz or .xz"
        )
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty")
    if unpack:
        return io.BytesIO(unpack(path.read_bytes())), form
    return path, form


def _sniff(data: bytes) -> tuple[io.BytesIO, str]:
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if not data:
        raise DataError("standard input is empty")
    return io.BytesIO(data), next((form for magic, form in MAGIC.items() if data.startswith(magic)), "csv")


@contextlib.contextmanager
def clear_errors(name: str) -> Iterator[None]:
    """Turn what readers raise on damaged files into a `DataError` of one line."""
    try:
        yield
    except DataError:
        raise
    except (
        ValueError,
        OSError,
        EOFError,
        KeyError,
        zlib.error,
        lzma.LZMAError,
        zipfile.BadZipFile,
    ) as error:  # pyarrow's are among these
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        hint = "the file may be damaged, half-written or of another format"
        raise DataError(f"cannot read {name}: {reason}; {hint}") from error


def _read_csv(source: Any, name: str, delimiters: str = ",;\t") -> Read:
    pa = _pyarrow()
    from pyarrow import csv

    data = source.getvalue() if isinstance(source, io.BytesIO) else source.read_bytes()
    end = data.find(b"\n")
    first = data[: end if end >= 0 else None].decode("utf-8", "replace")
    if not first.strip():
        raise DataError(f"{name} begins with an empty line; the first line must name the columns")
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(block_size=min(len(data) + 1, MAX_BLOCK)),
        parse_options=csv.ParseOptions(delimiter=max(delimiters, key=first.count), newlines_in_values=True),
        convert_options=csv.ConvertOptions(strings_can_be_null=True),
    )
    garbled = [field.name for field in table.schema if pa.types.is_binary(field.type)]
    if garbled:
        raise DataError(f"{name} is not UTF-8 text (column {_list(garbled)}): save it as UTF-8")
    return table.column_names, lambda chosen: {column: _to_numpy(table[column], column) for column in chosen}


def _read_tsv(source: Any, name: str) -> Read:
    return _read_csv(source, name, "\t")


def _read_parquet(source: Any, name: str) -> Read:
    _pyarrow()
    from pyarrow import parquet

    def cells(chosen: Sequence[str]) -> dict[str, Array]:
        table = parquet.read_table(source, columns=list(chosen))
        return {column: _to_numpy(table[column], column) for column in chosen}

    return parquet.read_schema(source).names, cells


def _to_numpy(column: Any, name: str) -> Array:
    """One arrow column as float64, int64, bool, object or datetime64."""
    import pyarrow as pa

    kind = pa.types
    if kind.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    t = column.type
    if kind.is_boolean(t) and column.null_count == 0:
        return np.asarray(column.to_numpy(), bool)
    if kind.is_integer(t) and column.null_count == 0 and t != pa.uint64():
        return np.asarray(column.to_numpy(), np.int64)
    if kind.is_null(t) or kind.is_boolean(t) or kind.is_integer(t) or kind.is_floating(t) or kind.is_decimal(t):
        return np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
    if kind.is_string(t) or kind.is_large_string(t):
        return np.array(column.to_pylist() or [], object)
    if kind.is_timestamp(t) or kind.is_date(t) or kind.is_duration(t):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    raise DataError(f"column {name!r} has type {t}, which is no table cell: leave it out")


def _read_npy(source: Any, name: str) -> Read:
    return _from_arrays({"x": np.load(source, allow_pickle=False)}, name)


def _read_npz(source: Any, name: str) -> Read:
    with (
        open(source, "rb") if isinstance(source, Path) else source as file,
        np.load(file, allow_pickle=False) as archive,
    ):
        return _from_arrays(dict(archive), name)


def _from_arrays(arrays: Mapping[str, Array], name: str) -> Read:
    columns: list[tuple[str, Array]] = []
    for key, array in arrays.items():
        if array.dtype.names:
            columns += [(field, array[field]) for field in array.dtype.names]
        elif array.ndim == 1:
            columns.append((key, array))
        elif array.ndim == 2:
            columns += [(f"{key}{j}", array[:, j]) for j in range(array.shape[1])]
        else:
            raise DataError(f"array {key!r} of {name} has shape {array.shape}; a table has one or two dimensions")
    lengths = {len(column) for _, column in columns}
    if len(lengths) > 1:
        raise DataError(f"the arrays of {name} have different lengths: {sorted(lengths)}")
    by_name = dict(columns)
    return [key for key, _ in columns], lambda chosen: {key: _plain(by_name[key], key) for key in chosen}


def _plain(array: Array, name: str) -> Array:
    """A numpy column in one of the kinds of `Table`."""
    if array.dtype.kind == "U":
        return np.array([str(cell) or None for cell in array], object)
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    if array.dtype.kind not in KINDS:
        raise DataError(f"column {name!r} has type {array.dtype}, which is no table cell: leave it out")
    return array.astype(np.int64) if array.dtype.kind in "iu" else array


def _choose(
    present: Sequence[str], name: str, columns: Sequence[str] | None, exclude: Sequence[str] | None
) -> list[str]:
    """The names to keep; unknown and duplicate names are errors."""
    if not present:
        raise DataError(f"{name} has no columns")
    twice = [column for column in dict.fromkeys(present) if present.count(column) > 1]
    if twice:
        hint = "rename the columns (does the file have a header line?)"
        raise DataError(f"{name} names {_list(twice)} more than once: {hint}")
    check_names([*(columns or ()), *(exclude or ())], present)
    return [column for column in (columns or present) if column not in (exclude or ())]


def _write_csv(sink: IO[bytes], columns: Mapping[str, Array], delimiter: str) -> None:
    table = to_arrow(columns)
    from pyarrow import csv

    csv.write_csv(table, sink, csv.WriteOptions(delimiter=delimiter))


def _write_parquet(sink: IO[bytes], columns: Mapping[str, Array]) -> None:
    table = to_arrow(columns)
    from pyarrow import parquet

    parquet.write_table(table, sink)


def _write_npz(sink: IO[bytes], columns: Mapping[str, Array]) -> None:
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:  # numpy.savez forbids a column called "file"
        for name, cells in columns.items():
            plain = np.array(["" if cell is None else str(cell) for cell in cells]) if cells.dtype == object else cells
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(plain), allow_pickle=False)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise need("pyarrow", "app", "reading and writing CSV and Parquet") from error
    return pyarrow


def _list(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


READERS: dict[str, Callable[[Any, str], Read]] = {
    "csv": _read_csv,
    "tsv": _read_tsv,
    "parquet": _read_parquet,
    "npy": _read_npy,
    "npz": _read_npz,
}
