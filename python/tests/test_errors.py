"""The exceptions: what they are, beside Python's own."""
from __future__ import annotations

import pytest
import tilewright as tw
from tilewright import _errors


@pytest.mark.parametrize("cls, base, kind, exit_code", [
    (tw.UsageError, ValueError, "usage", 2), (tw.ModelError, tw.Error, "model", 3),
    (tw.UnsupportedError, tw.ModelError, "unsupported", 3), (tw.InputValueError, tw.UsageError, "input-value", 2),
    (tw.DamagedError, tw.Error, "damaged", 5), (tw.IncompatibleError, tw.Error, "incompatible", 5),
    (tw.DeviceError, tw.Error, "device", 5), (tw.OutOfMemoryError, MemoryError, "exhausted", 6),
    (tw.InternalError, tw.Error, "internal", 70), (tw.FailureError, OSError, "failure", 1),
])
def test_tree(cls: type[tw.Error], base: type[Exception], kind: str, exit_code: int) -> None:
    error = cls("what happened")
    assert isinstance(error, tw.Error) and isinstance(error, base)
    assert (error.kind, error.exit_code, str(error)) == (kind, exit_code, "what happened")


@pytest.mark.parametrize("code, cls", [(1, tw.InternalError), (4, tw.InputValueError), (5, tw.DamagedError),
                                       (6, tw.IncompatibleError), (7, tw.DeviceError), (8, tw.OutOfMemoryError),
                                       (9, tw.FailureError), (10, tw.FailureError), (99, tw.Error)])
def test_of_the_runtime(code: int, cls: type[tw.Error]) -> None:
    assert type(_errors.from_runtime(code, "text", "{}")) is cls


def test_of_the_compiler() -> None:
    error = _errors.from_compiler(3, "text", '{"type": "unsupported", "operators": ["Foo"]}')
    assert isinstance(error, tw.UnsupportedError) and error.operators == ["Foo"]
    assert isinstance(_errors.from_compiler(130, "text", '{"type": "cancelled"}'), KeyboardInterrupt)
