"""The exceptions of this package, and how failures of the two C interfaces become one of them."""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]


class Error(Exception):
    """Base of all exceptions that Tilewright raises itself.

    kind: a word for programs. exit_code: what the command `tilewright` exits with after the same failure.
    details: what else the library knows of it, by name.
    """

    kind = "failure"
    exit_code = 1

    def __init__(self, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details: Mapping[str, Any] = details or {}


class UsageError(Error, ValueError):
    """An argument or option is wrong: an unknown name, a wrong dtype, a tensor on another device."""

    kind = "usage"
    exit_code = 2


class ModelError(Error):
    """The ONNX model is wrong, or contradicts the options.

    given: the shapes that were asked for, of the inputs whose own contradict them; declared: the model's own, where an
    extent may also be the name of a dimension, or None. Both are empty where the shapes of inputs are not at fault.
    node: the name of the ONNX node that the error is about, or "".
    """

    kind = "model"
    exit_code = 3

    @property
    def given(self) -> Shapes:
        return _tuples(self.details.get("given", {}))

    @property
    def declared(self) -> Mapping[str, tuple[int | str | None, ...]]:
        return _tuples(self.details.get("declared", {}))

    @property
    def node(self) -> str:
        return str(self.details.get("node", ""))


class UnsupportedError(ModelError):
    """The model is valid and needs something that is not supported.

    operators: the ONNX operators at fault, sorted. items: each reason, with "operator", "domain", "opset", "reason" and
    the names of its "nodes".
    """

    kind = "unsupported"

    @property
    def operators(self) -> list[str]:
        return list(self.details.get("operators", []))

    @property
    def items(self) -> list[Mapping[str, Any]]:
        return list(self.details.get("items", []))


class ShapeError(UsageError):
    """Tensors of shapes that the model was not compiled for.

    given: the shape of each tensor in question: of all inputs, or of the one that does not fit. compiled: the shapes
    of the same tensors, a mapping for each entry of the model that they were compared with.
    """

    kind = "shape"

    def __init__(self, message: str, given: Shapes, compiled: Sequence[Shapes]) -> None:
        super().__init__(message, {"given": given, "compiled": compiled})
        self.given = given
        self.compiled = compiled


class InputValueError(UsageError):
    """A value that an operator cannot take, for example an index out of range. The outputs of the run are invalid."""

    kind = "input-value"


class DamagedError(Error):
    """Not an artefact, or one that is truncated or altered."""

    kind = "damaged"
    exit_code = 5


class IncompatibleError(Error):
    """An artefact of another format version, or for a CPU that this one is not."""

    kind = "incompatible"
    exit_code = 5


class DeviceError(Error):
    """There is no such device, or it failed."""

    kind = "device"
    exit_code = 5


class OutOfMemoryError(Error, MemoryError):
    """Memory is full, or a limit that the options set is reached."""

    kind = "exhausted"
    exit_code = 6


class InternalError(Error):
    """A defect of Tilewright."""

    kind = "internal"
    exit_code = 70


class FailureError(Error, OSError):
    """The operating system failed to read or write: a missing file, a full disk."""


class CopyWarning(UserWarning):
    """An array was copied before a run, because its memory cannot be used as it is."""


class FallbackWarning(UserWarning):
    """Tilewright does not run something, or ignores an argument; what happens instead is in the text."""


# The codes of TwStatusCode (tilewright/runtime.h).
_RUNTIME_ERRORS: dict[int, type[Error]] = {
    1: InternalError, 2: UsageError, 3: UsageError, 4: InputValueError, 5: DamagedError, 6: IncompatibleError,
    7: DeviceError, 8: OutOfMemoryError, 9: FailureError, 10: FailureError}

# The types of the details of a status of the compiler (tilewright/compiler.h).
_COMPILER_ERRORS: dict[str, type[Error]] = {
    "failure": FailureError, "usage": UsageError, "model": ModelError, "unsupported": UnsupportedError,
    "artefact": DamagedError, "exhausted": OutOfMemoryError, "internal": InternalError}


def _tuples(shapes: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(shape) for name, shape in shapes.items()}


def from_runtime(code: int, message: str, details: str) -> Error:
    """The exception for a status of the runtime; called by the module _runtime."""
    known = json.loads(details)
    if "given" in known:
        return ShapeError(message, _tuples(known["given"]), [_tuples(shapes) for shapes in known["compiled"]])
    return _RUNTIME_ERRORS.get(code, Error)(message, {"code": code, **known})


def from_compiler(kind: int, message: str, details: str) -> BaseException:
    """The exception for a status of the compiler; called by the module _compiler."""
    known = json.loads(details)
    if known.get("type") == "cancelled":
        return KeyboardInterrupt(message)
    return _COMPILER_ERRORS.get(known.get("type", ""), Error)(message, {"code": kind, **known})
