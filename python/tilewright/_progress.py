"""How a compilation is shown: one live line in a terminal or a notebook, or what the caller does with it."""
from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

Progress = Callable[[str, int, int, str], object]

_REFRESH_SECONDS = 0.1
_BAR_WIDTH = 20


def _is_notebook() -> bool:
    return "ipykernel" in sys.modules


class Bar:
    """Writes `phase [####....] done/total detail` over itself, cut to the width of the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = 0
        self._last = ("", 0.0)

    def __call__(self, phase: str, done: int, total: int, detail: str) -> None:
        now = time.monotonic()
        if phase == self._last[0] and done < total and now - self._last[1] < _REFRESH_SECONDS:
            return
        self._last = (phase, now)
        filled = _BAR_WIDTH * done // total if total > 0 else 0
        text = f"{phase:9} [{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {done}/{total} {detail}".rstrip()
        width = shutil.get_terminal_size().columns - 1
        self._write(text if len(text) <= width else text[:width - 3] + "...")

    def _write(self, text: str) -> None:
        self._stream.write("\r" + text + " " * (self._shown - len(text)))
        self._stream.flush()
        self._shown = len(text)

    def close(self) -> None:
        """Leaves an empty line, where the next text begins."""
        if self._shown:
            self._write("")
            self._stream.write("\r")
            self._stream.flush()


def _ignore(phase: str, done: int, total: int, detail: str) -> None:
    pass


@contextmanager
def shown(progress: bool | Progress | None) -> Iterator[Progress]:
    """make(progress), whose line is gone afterwards."""
    show = make(progress)
    try:
        yield show
    finally:
        if isinstance(show, Bar):
            show.close()


def make(progress: bool | Progress | None) -> Progress:
    """The caller's function, a bar (True; None: in a terminal or a notebook), or nothing (False)."""
    if callable(progress):
        return progress
    if progress is None:
        progress = sys.stderr is not None and (sys.stderr.isatty() or _is_notebook())
    return Bar(sys.stderr) if progress else _ignore
