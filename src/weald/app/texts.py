"""Documents in: a folder of .txt files, JSON lines, or one column of a table.

    folder/*.txt       one document each, also in folders below; its name is the file's
    corpus.jsonl       one JSON object each line, plain or packed (.gz, .xz, .bz2)
    corpus.parquet     and what else `weald.app.readers.read_table` reads; - is standard input

Documents are handed over one at a time, so that a corpus need not fit into memory as text. Text must be UTF-8. A
missing text (null) stays a document without words: rows of the result are rows of the file.

    documents = read_texts("corpus.jsonl", Fields("body", id="key", date="published"))
    next(documents).text
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import lzma
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from weald._typing import Array, PathLike
from weald.app.readers import SUFFIXES, Table, check_names, clear_errors, read_table
from weald.exceptions import DataError, ParameterError

LINES = (".jsonl", ".ndjson")
OPEN: dict[str, Callable[[Path], IO[bytes]]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}  # type: ignore[dict-item]
YEARS = (1000, 3000)


class Document(NamedTuple):
    """A text, with what names it and when it was written, where that is known."""

    text: str | None
    id: Any = None
    date: Any = None


@dataclass(frozen=True)
class Fields:
    """Which columns of a table, or fields of JSON lines, to read.

    Parameters
    ----------
    text : str
        The text.
    id : str, optional
        What names documents.
    date : str, optional
        When they were written: dates, times or years.
    lenient : bool
        Do without the id and the date where there are none.
    """

    text: str = "text"
    id: str | None = None
    date: str | None = None
    lenient: bool = False

    @property
    def names(self) -> list[str]:
        """The fields that are asked for, each once."""
        return list(dict.fromkeys(name for name in (self.text, self.id, self.date) if name is not None))


def read_texts(path: PathLike, fields: Fields) -> Iterator[Document]:
    """The documents of a folder or file, one at a time.

    Parameters
    ----------
    path : path or str
        A folder of .txt files, a .jsonl file, or a table; ``"-"`` reads a table from standard input.
    fields : Fields
        What to read; a folder has text only.

    Yields
    ------
    Document
    """
    where = Path(path)
    if str(path) != "-" and where.is_dir():
        yield from _folder(where, fields)
    elif str(path) != "-" and _is_lines(where):
        yield from _lines(where, fields)
    else:
        yield from _table(path, fields)


def names_documents(path: PathLike, fields: Fields) -> str | None:
    """What the column of ids is called in what is written: ``"file"`` for a folder; None where there is none."""
    return "file" if str(path) != "-" and Path(path).is_dir() else fields.id


def as_dates(cells: Sequence[Any], name: str) -> Array:
    """Dates, times or years as datetime64[s]; what is missing is NaT.

    Parameters
    ----------
    cells : sequence of n datetime64, str, int, float or None
        Text is ISO 8601, such as 2024, 2024-05 or 2024-05-31T12:00:00Z.
    name : str
        The field, for errors.

    Returns
    -------
    (n,) datetime64[s] array
    """
    return np.array([_as_date(cell, name) for cell in cells], "datetime64[s]")


def _as_date(cell: Any, name: str) -> np.datetime64:
    if cell is None or cell != cell or cell == "":
        return np.datetime64("NaT", "s")
    if isinstance(cell, np.datetime64):
        return cell.astype("datetime64[s]")
    if isinstance(cell, str):
        with contextlib.suppress(ValueError):
            when = datetime.fromisoformat(cell.strip())
            return np.datetime64(when.astimezone(UTC).replace(tzinfo=None) if when.tzinfo else when, "s")
        with contextlib.suppress(ValueError):
            return np.datetime64(cell.strip(), "s")
    elif not isinstance(cell, bool | np.bool_) and YEARS[0] <= cell <= YEARS[1] and cell == int(cell):
        return np.datetime64(f"{int(cell)}", "s")
    raise DataError(f"{name!r} holds {cell!r}, which is no date: write dates like 2024-05-31, or years")


def _is_lines(path: Path) -> bool:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes[-1:] and suffixes[-1] in OPEN
    return bool(suffixes) and suffixes[-2 if packed and len(suffixes) > 1 else -1] in LINES


def _folder(path: Path, fields: Fields) -> Iterator[Document]:
    """Every .txt file of a folder, in the order of their names."""
    if fields.id or fields.date:
        raise ParameterError(f"{path} is a folder, which has no columns: leave out id and date")
    files = sorted(file for file in path.rglob("*.txt") if file.is_file())
    if not files:
        there = sorted(file.name for file in path.iterdir())
        shown = ", ".join(there[:8]) + (", ..." if len(there) > 8 else "")
        raise DataError(f"there are no .txt files in the folder {path}; it holds {shown or 'nothing'}")
    for file in files:
        try:
            text = file.read_text("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError(f"{file} is not UTF-8 text (byte {error.start}): save it as UTF-8") from error
        yield Document(text, file.relative_to(path).as_posix())


def _lines(path: Path, fields: Fields) -> Iterator[Document]:
    """One JSON object each line."""
    if not path.exists():
        raise DataError(f"there is no file {path}")
    found = False
    with clear_errors(str(path)), _opened(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            cells = _object(line, f"line {number} of {path}")
            if not found:
                check_names([fields.text] if fields.lenient else fields.names, list(cells))
            found = True
            yield _document(cells, fields, f"line {number} of {path}")
    if not found:
        raise DataError(f"{path} is empty")


def _opened(path: Path) -> IO[bytes]:
    unpack = OPEN.get(path.suffix.lower())
    return open(path, "rb") if unpack is None else unpack(path)


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        cells = json.loads(line)
    except UnicodeDecodeError as error:
        raise DataError(f"{where} is not UTF-8 text: save the file as UTF-8") from error
    except ValueError as error:
        raise DataError(f"{where} is no JSON: {error}") from error
    if not isinstance(cells, dict):
        raise DataError(f"{where} holds a {type(cells).__name__}, not an object with named fields")
    return cells


def _document(cells: dict[str, Any], fields: Fields, where: str) -> Document:
    text = cells.get(fields.text)
    if text is not None and not isinstance(text, str):
        texts = ", ".join(repr(name) for name, cell in cells.items() if isinstance(cell, str)) or "none"
        raise DataError(f"{where}: {fields.text!r} holds {text!r:.40}, not text; fields with text: {texts}")
    id = None if fields.id is None else cells.get(fields.id)
    date = None if fields.date is None else cells.get(fields.date)
    return Document(text, id, date)


def _table(path: PathLike, fields: Fields) -> Iterator[Document]:
    """One column of a table."""
    _check_suffix(path)
    try:
        table = read_table(path, columns=fields.names)
    except DataError:
        if not fields.lenient or len(fields.names) == 1:
            raise
        fields = Fields(fields.text)
        table = read_table(path, columns=fields.names)
    kind = table.kind(fields.text)
    if kind != "text":
        others = "" if str(path) == "-" else f"; columns with text: {_with_text(read_table(path))}"
        raise DataError(f"column {fields.text!r} holds {kind}, not text{others}")
    columns = [table.columns[name] if name else [None] * table.n_rows for name in (fields.text, fields.id, fields.date)]
    for cells in zip(*columns, strict=True):
        yield Document(*cells)


def _check_suffix(path: PathLike) -> None:
    """Say what a corpus may be, where the name does not tell."""
    suffixes = Path(path).suffixes
    if str(path) != "-" and Path(path).is_file() and not any(suffix.lower() in SUFFIXES for suffix in suffixes[-2:]):
        known = ", ".join((*LINES, *SUFFIXES))
        raise DataError(
            f"cannot tell the format of {path}: pass a folder of .txt files, or a name that ends in {known}"
        )


def _with_text(table: Table) -> str:
    return ", ".join(repr(name) for name in table.names if table.kind(name) == "text") or "none"
