"""The bar of a compilation."""
from __future__ import annotations

import io
import sys
from typing import Any

import pytest
from tilewright import _progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bar_is_one_line_of_the_terminals_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    bar = _progress.Bar(stream)
    bar("measure", 1, 4, "a very long name of a group of operators")
    bar("lower", 4, 4, "")
    bar.close()
    lines = stream.getvalue().split("\r")
    assert "\n" not in stream.getvalue()
    assert lines[1] == "measure   [#####...............] 1/4..." and len(lines[1]) == 39
    assert lines[2].rstrip() == "lower     [####################] 4/4"
    assert lines[-1] == "" and lines[-2].strip() == ""


def test_bar_rests_between_steps() -> None:
    stream = Terminal()
    bar = _progress.Bar(stream)
    for done in range(100):
        bar("code", done, 1000, "")
    assert stream.getvalue().count("\r") < 20


@pytest.mark.parametrize("progress, shown", [(None, False), (True, True), (False, False)])
def test_by_default_only_terminals_and_notebooks(monkeypatch: pytest.MonkeyPatch, progress: Any, shown: bool) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(_progress.make(progress), _progress.Bar) == shown
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert isinstance(_progress.make(None), _progress.Bar)


def test_a_terminal_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(_progress.make(None), _progress.Bar)
