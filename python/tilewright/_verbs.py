"""What verbs of the command `tilewright` say of a compiled model, asked in this process."""
from __future__ import annotations

import html
import importlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _progress
from ._errors import UsageError

if TYPE_CHECKING:
    from ._compiler import CommandResult


def compiler() -> Any:
    """The module _compiler. UsageError says what to install where only the runtime is."""
    try:
        return importlib.import_module("tilewright._compiler")
    except ModuleNotFoundError:
        raise UsageError("this installation has the runtime alone, which loads .tw files: to compile, explain, verify "
                         "or report, run 'pip uninstall tilewright-runtime' and 'pip install tilewright'") from None


@dataclass(frozen=True)
class Verification:
    """A comparison with a reference. ok: no element is further off than its bound. lines: what was found, in words.
    document: the same for programs, as `tilewright verify --json` prints it."""

    ok: bool
    lines: tuple[str, ...]
    document: Mapping[str, Any]

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True)
class Report:
    """A page of pictures, which notebooks show. ok: it holds no wrong result. path: the HTML file. document: what it
    shows, as `tilewright report --json` prints it."""

    ok: bool
    path: str
    document: Mapping[str, Any]

    def _repr_html_(self) -> str:
        with open(self.path, encoding="utf-8") as file:
            page = html.escape(file.read(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 800px; border: 0"></iframe>'


def call(words: Sequence[str], progress: bool | _progress.Progress | None = None) -> CommandResult:
    """The command with these words. Errors are exceptions; exit_code is 0, or 4 where results are wrong."""
    library = compiler()
    with _progress.shown(progress) as show:
        result: CommandResult = library.call_command(list(words), show)
    return result


@contextmanager
def as_file(source: Any, name: str) -> Iterator[str]:
    """A model or artefact as a path: bytes, and what has SerializeToString, become a file of that name for a while."""
    if isinstance(source, (str, os.PathLike)):
        yield os.fspath(source)
        return
    if hasattr(source, "SerializeToString"):
        source = source.SerializeToString()
    if not isinstance(source, (bytes, bytearray, memoryview)):
        raise UsageError(f"the model is of type {type(source).__qualname__}; expected is a path, bytes, or an "
                         "onnx.ModelProto")
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(source)
        yield path


def explain(artefact: str, options: Sequence[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(call(["explain", artefact, "--json", *options]).output)
    return document


def verify(artefact: str, options: Sequence[str], progress: bool | _progress.Progress | None) -> Verification:
    result = call(["verify", artefact, "--json", *options], progress)
    return Verification(result.exit_code == 0, tuple(result.error.splitlines()), json.loads(result.output))


def report(artefact: str, path: str, options: Sequence[str], progress: bool | _progress.Progress | None) -> Report:
    result = call(["report", artefact, "--output", path, "--json", *options], progress)
    return Report(result.exit_code == 0, path, json.loads(result.output))
