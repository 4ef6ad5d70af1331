"""tilewright.compile: a model of ONNX or torch becomes a tilewright.Model."""
from __future__ import annotations

import difflib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import _progress, _torch_export
from ._errors import UsageError
from ._files import write_file
from ._model import Model, load
from ._verbs import compiler

if TYPE_CHECKING:
    from ._compiler import Compilation

Shape = Sequence[int]

# What numpy and torch call the types that the option "dtype" takes.
_DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


class Artefact:
    """A compiled model that is not loaded: it may be for another machine.

    content: the bytes of a .tw file. plan: all decisions, as text that `compile(plan=...)` takes. report: what the
    compilation says of itself; report["complete"] is False where measuring was cut short.
    """

    def __init__(self, compilation: Compilation) -> None:
        self.content: bytes = compilation.artefact
        self.plan: str = compilation.plan
        self.report: Mapping[str, Any] = json.loads(compilation.report)

    def load(self, device: str | int | None = None, threads: int = 0, level: str = "", *,
             compile_missing: Any = None) -> Model:
        """The model, loaded on this machine; arguments as of tilewright.load."""
        model = load(self.content, device, threads, level, trusted_keys=[], compile_missing=compile_missing)
        model.plan, model.compilation = self.plan, self.report
        return model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the .tw file, atomically."""
        write_file(path, self.content)


def _extents(shape: Any) -> str:
    return "x".join(str(int(extent)) for extent in shape)


def _shape_text(shapes: Any) -> str:
    """(1, 3) or [(1, 3), (8, 3)] as the option "shape" says it."""
    several = shapes if len(shapes) > 0 and not isinstance(shapes[0], int) else [shapes]
    return ",".join(_extents(shape) for shape in several)


def _dim_text(values: Any) -> str:
    if isinstance(values, str):
        return values
    if isinstance(values, range) and values.step == 1 and len(values) > 1:
        return f"{values.start}..{values.stop - 1}"
    return ",".join(str(int(value)) for value in (values if isinstance(values, Sequence) else [values]))


class _Options:
    """Options of the table by their names, from Python's values."""

    def __init__(self) -> None:
        module = compiler()
        self._rows = {row.name: row for row in module.option_rows()}
        self.native = module.CompileOptions()

    def set(self, name: str, value: Any) -> None:
        """One option: a bool for a flag (also "measure" for "no-measure"), a list for what is repeatable."""
        if name not in self._rows and f"no-{name}" in self._rows and isinstance(value, bool):
            name, value = f"no-{name}", not value
        if name not in self._rows:
            close = difflib.get_close_matches(name, self._rows, 1)
            hint = f"; did you mean '{close[0].replace('-', '_')}'?" if close else ""
            raise UsageError(f"there is no option '{name.replace('-', '_')}'{hint}")
        several = value if isinstance(value, (list, tuple)) and self._rows[name].is_repeatable else [value]
        for item in several:
            self.native.set(name, self._text(name, item))

    def _text(self, name: str, value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if self._rows[name].kind == "duration" and isinstance(value, (int, float)):
            return f"{value}s"
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _options(named: Mapping[str, Any], shapes: Mapping[str, Any] | None, dims: Mapping[str, Any] | None,
             constants: Mapping[str, Any] | None, state: Mapping[str, Any] | None) -> _Options:
    options = _Options()
    for name, shape in (shapes or {}).items():
        options.set("shape", [f"{name}:{_shape_text(shape)}"])
    for name, values in (dims or {}).items():
        options.set("dim", [f"{name}={_dim_text(values)}"])
    for name, array in (constants or {}).items():
        options.native.set_constant(name, array)
    for name, kept in (state or {}).items():
        if isinstance(kept, str):
            options.set("state", [f"{name}={kept}"])
        else:
            options.native.set_state(name, kept[0], kept[1])
    for name, value in named.items():
        if value is None:
            continue
        if name == "plan":
            options.native.set_plan(str(value))
        else:
            options.set(name.replace("_", "-"), _DTYPES.get(value, value) if name == "dtype" else value)
    return options


@contextmanager
def _source(model: Any, example_inputs: Sequence[Any] | None, dynamic_shapes: Any) -> Iterator[tuple[str | bytes, str]]:
    """The model as a path or bytes, and the folder of its external data."""
    if isinstance(model, (str, os.PathLike)):
        yield os.fspath(model), ""
    elif isinstance(model, (bytes, bytearray, memoryview)):
        yield bytes(model), ""
    elif hasattr(model, "SerializeToString"):
        try:
            content = model.SerializeToString()
        except Exception as error:  # of protobuf, for messages of more than 2 GiB
            raise UsageError(f"the onnx.ModelProto cannot be made bytes ({error}): write it with onnx.save(model, "
                             "'model.onnx', save_as_external_data=True), and give the path") from None
        yield content, os.getcwd()
    elif _torch_export.is_module(model):
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
            yield _torch_export.export(model, example_inputs, dynamic_shapes, folder), ""
    else:
        raise UsageError(f"the model is of type {type(model).__qualname__}; expected is a path, bytes, an "
                         "onnx.ModelProto, or a torch.nn.Module")


def compile_artefact(
    model: Any, example_inputs: Sequence[Any] | None = None, *, target: str | None = None,
    shapes: Mapping[str, Shape | Sequence[Shape]] | None = None,
    dims: Mapping[str, int | Sequence[int] | str] | None = None,
    dtype: str | None = None, precision: str | None = None, budget: float | str | None = None,
    progress: bool | _progress.Progress | None = None, constants: Mapping[str, Any] | None = None,
    state: Mapping[str, str | tuple[str, Any]] | None = None, plan: str | None = None, dynamic_shapes: Any = None,
    **options: Any,
) -> Artefact:
    """Compiles like `compile`, for any machine, and does not load the result."""
    named = {"target": target, "dtype": dtype, "precision": precision, "budget": budget, "plan": plan, **options}
    native = _options(named, shapes, dims, constants, state).native
    with _progress.shown(progress) as show, _source(model, example_inputs, dynamic_shapes) as (source, folder):
        if isinstance(source, str):
            return Artefact(compiler().compile_file(source, native, show))
        return Artefact(compiler().compile_bytes(source, folder, native, show))


def compile(
    model: Any, example_inputs: Sequence[Any] | None = None, *, target: str | None = None,
    shapes: Mapping[str, Shape | Sequence[Shape]] | None = None,
    dims: Mapping[str, int | Sequence[int] | str] | None = None,
    dtype: str | None = None, precision: str | None = None, budget: float | str | None = None,
    progress: bool | _progress.Progress | None = None, device: str | int | None = None, threads: int = 0,
    compile_missing: bool = False, **options: Any,
) -> Model:
    """Compiles a model and loads it.

    model: a path to an ONNX file, its bytes, an onnx.ModelProto, or a torch.nn.Module with example_inputs (it is
        exported by torch.onnx; dynamic_shapes goes to torch.export).
    target: "cpu" (this machine; the default), "cpu:x86-64-v3", "cuda:sm_90a", ...: tilewright.target_names().
    shapes: of inputs by name; a list of shapes makes an entry for each. dims: the same for symbolic dimensions, or a
        range of which the model takes every size: {"seq": range(1, 129)} or {"seq": "1..128"}.
    dtype: "f32", "f16" or "bf16", which f32 values are stored and multiplied as.
    precision: "strict", "default" or "fast".
    budget: longest time for measuring, in seconds. progress: a function of (phase, done, total, detail), True for a
        bar, False for none; by default a bar in a terminal and in a notebook.
    constants: inputs that become part of the model, by name. plan: a plan to replay.
    state: {input: output} that the model keeps from one run to the next, or {input: (output, initial value)}.
    device, threads: as of tilewright.load. compile_missing: other shapes are compiled when they are met, as
        tilewright.load has it.
    Other options: those of docs/reference/options.md with _ for -, for example disable_pass=["fuse"]; measure=False for
        no-measure.

    Ctrl-C while candidates are measured keeps the best so far (model.compilation["complete"] is False then); elsewhere
    it raises KeyboardInterrupt. UsageError, ModelError, UnsupportedError: what is wrong with the options or the model.
    """
    artefact = compile_artefact(
        model, example_inputs, target=target, shapes=shapes, dims=dims, dtype=dtype, precision=precision,
        budget=budget, progress=progress, **options)
    return artefact.load(device, threads, compile_missing=model if compile_missing else None)


def target_names() -> list[str]:
    """What `target` takes."""
    names: list[str] = compiler().target_names()
    return names


def refit(artefact: str | os.PathLike[str] | bytes | Artefact, weights: Mapping[str, Any],
          progress: bool | _progress.Progress | None = None) -> Artefact:
    """The same compiled model with other weights, in a fraction of the time of a compilation.

    weights: all initializers of the ONNX model that have several elements, by name. UsageError names those that are
    missing, unknown, or of another shape or type.
    """
    if isinstance(artefact, Artefact):
        content = artefact.content
    elif isinstance(artefact, bytes):
        content = artefact
    else:
        with open(artefact, "rb") as file:
            content = file.read()
    with _progress.shown(progress) as show:
        return Artefact(compiler().refit(content, dict(weights), show))
