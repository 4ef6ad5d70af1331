"""What an ONNX file says of its interface: inputs, outputs, metadata. Weights are skipped, not read.

A reader of protobuf's wire format for the few fields that are needed (onnx.proto): neither onnx nor protobuf is needed
to open a session, and a model of many GB is open at once.
"""
from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from ._errors import ModelError
from ._ort_types import ELEMENT_TYPES

Dimension = int | str | None

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class Value:
    """An input or output. shape: numbers, names of symbolic dimensions, or None where nothing is known."""

    name: str
    dtype: str
    shape: tuple[Dimension, ...]

    @property
    def is_static(self) -> bool:
        return all(isinstance(extent, int) for extent in self.shape)


@dataclass
class Interface:
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    initializers: set[str] = field(default_factory=set)
    metadata: dict[str, str] = field(default_factory=dict)
    producer: str = ""
    domain: str = ""
    description: str = ""
    graph_name: str = ""
    graph_description: str = ""
    version: int = 0


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """(number, value of a varint, bytes of a message or text) of each field."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind, value, body = key & 7, 0, data[:0]
        if kind == _VARINT:
            value, at = _varint(data, at)
        elif kind == _LENGTH:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise IndexError
            body = data[at:at + size]
            at += size
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise IndexError
        yield key >> 3, value, body


def _text(body: memoryview) -> str:
    return str(body, "utf-8", "replace")


def _dimension(body: memoryview) -> Dimension:
    result: Dimension = None
    for number, value, text in _fields(body):
        if number == 1:
            result = value
        elif number == 2:
            result = _text(text) or None
    return result


def _value(body: memoryview) -> Value:
    name, dtype, shape = "", "", []
    for number, _, part in _fields(body):
        if number == 1:
            name = _text(part)
        elif number == 2:
            tensors = [inner for kind, _, inner in _fields(part) if kind == 1]
            for kind, value, inner in (row for tensor in tensors for row in _fields(tensor)):
                if kind == 1:
                    dtype = ELEMENT_TYPES.get(value, f"type {value}")
                elif kind == 2:
                    shape = [_dimension(extent) for number, _, extent in _fields(inner) if number == 1]
    return Value(name, dtype, tuple(shape))


def _read_graph(body: memoryview, interface: Interface) -> None:
    for number, _, part in _fields(body):
        if number == 2:
            interface.graph_name = _text(part)
        elif number == 5:
            interface.initializers.update(_text(name) for kind, _, name in _fields(part) if kind == 8)
        elif number == 10:
            interface.graph_description = _text(part)
        elif number == 11:
            interface.inputs.append(_value(part))
        elif number == 12:
            interface.outputs.append(_value(part))


def _parse(data: memoryview) -> Interface:
    interface = Interface()
    for number, value, body in _fields(data):
        if number == 2:
            interface.producer = _text(body)
        elif number == 4:
            interface.domain = _text(body)
        elif number == 5:
            interface.version = value
        elif number == 6:
            interface.description = _text(body)
        elif number == 7:
            _read_graph(body, interface)
        elif number == 14:
            pair = {kind: _text(text) for kind, _, text in _fields(body)}
            interface.metadata[pair.get(1, "")] = pair.get(2, "")
    interface.inputs = [value for value in interface.inputs if value.name not in interface.initializers]
    return interface


def read(source: str | os.PathLike[str] | bytes) -> Interface:
    """The interface of a model. ModelError: it is no ONNX model, or truncated. OSError: there is no such file."""
    try:
        if isinstance(source, bytes):
            return _parse(memoryview(source))
        with open(source, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise IndexError
            # Closed by its last view: one may be alive in the traceback of an error.
            return _parse(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    except IndexError:
        name = "the given bytes are" if isinstance(source, bytes) else f"'{os.fspath(source)}' is"
        raise ModelError(f"{name} not an ONNX model, or truncated") from None
