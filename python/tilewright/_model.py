"""A compiled model: loading, running, binding, profiling, state."""
from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from . import _arrays, _runtime, _verbs
from ._errors import UsageError
from ._files import write_file
from ._ort_types import ModelMetadata
from ._profile import Profile
from ._progress import Progress
from ._verbs import Report, Verification


@dataclass(frozen=True)
class TensorInfo:
    """An input, an output, or a value of the state. dtype: as numpy and torch name it, for example "float32"."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class Entry:
    """One combination of input shapes that the model was compiled for; of one that serves a range the largest."""

    name: str
    inputs: Mapping[str, TensorInfo]
    outputs: Mapping[str, TensorInfo]


def _infos(tensors: Sequence[_runtime.Tensor]) -> dict[str, TensorInfo]:
    return {tensor.name: TensorInfo(tensor.name, tensor.shape, tensor.dtype) for tensor in tensors}


class Binding:
    """A model with arrays for all inputs and outputs: run() neither copies nor allocates."""

    def __init__(self, native: _runtime.Binding, outputs: dict[str, Any], arrays: Sequence[Any]) -> None:
        self._native = native
        self._arrays = [array for array in arrays if not _arrays.is_on_host(array)]
        #: Runs on what the arrays hold now. With arrays of torch or cupy on a GPU it is work of their current stream.
        self.run: Callable[[], None] = self._run_on_stream if self._arrays else native.run
        self.outputs = outputs

    def _run_on_stream(self) -> None:
        stream = _arrays.stream_of(self._arrays)
        if stream is None:
            self._native.run()
        else:
            self._native.run_async(stream)

    def synchronize(self) -> None:
        """Returns when the runs have ended; on a CPU they have."""
        _arrays.wait_for(self._arrays)

    def measure(self, count: int) -> list[int]:
        """Runs `count` times in a row; how long each of them took in ns, without Python."""
        return self._native.measure(count)


class State:
    """What a model keeps from one run to the next, by name. All runs of the model share it."""

    def __init__(self, native: _runtime.State) -> None:
        self._native = native
        self.values = _infos(native.values)
        self._index = {name: index for index, name in enumerate(self.values)}

    def _index_of(self, name: str) -> int:
        if name not in self._index:
            raise UsageError(f"the model keeps no '{name}'; it keeps: {', '.join(self._index)}")
        return self._index[name]

    def get(self, name: str, kind: int | None = None) -> Any:
        """A copy of the value: numpy's, or a memoryview where numpy is not installed."""
        kind = _arrays.default_kind() if kind is None else kind
        array = self._native.get(self._index_of(name), kind)
        is_view = self.values[name].dtype == "bfloat16" and kind == _arrays.NUMPY
        return _arrays.as_bfloat16(array) if is_view else array

    def set(self, name: str, value: Any) -> None:
        """Sets the value to a copy of that array, which has the same shape and dtype."""
        self._native.set(self._index_of(name), value)

    def reset(self) -> None:
        """All values are again what they were when the model was loaded."""
        self._native.reset()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all values to a .safetensors file, atomically."""
        self._native.save(os.fspath(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Reads all values from a .safetensors file that has these and no others."""
        self._native.load(os.fspath(path))


class Model:
    """A compiled model. It may be called by any number of threads at the same time; runs release the GIL.

    An artefact of several functions (tilewright.Trainer) is loaded as the first of them; functions has all, by name,
    each a Model with the same state. Of other models it has one, "".
    """

    def __init__(self, native: _runtime.Model, artefact: bytes | str, level: str = "", function: str = "",
                 trusted: Sequence[str] | None = None) -> None:
        self._native = native
        self._artefact = artefact
        self._level = level
        self._trusted = trusted
        self._function = function or native.functions[0]
        names = native.entries
        self.entries = tuple(Entry(name, _infos(native.inputs(i)), _infos(native.outputs(i)))
                             for i, name in enumerate(names))
        self.inputs = self.entries[0].inputs
        self.outputs = self.entries[0].outputs
        self.state = State(native.state) if native.state is not None else None
        self.functions: dict[str, Model] = {self._function: self}
        self._input_names = tuple(self.inputs)
        self._output_names = tuple(self.outputs)
        self._bfloat16 = tuple(i for i, info in enumerate(self.outputs.values()) if info.dtype == "bfloat16")
        self._on_device = native.target.startswith("sm_")
        self._profiles = threading.local()
        self._profiling = 0  # blocks of profile() that are open, in any thread
        self._count_lock = threading.Lock()
        self.plan: str | None = None
        #: What the compilation in this process said of itself, as Artefact.report.
        self.compilation: Mapping[str, Any] | None = None

    @property
    def target(self) -> str:
        """What the code is for: "x86-64-v4", "sm_90a"."""
        return self._native.target

    @property
    def threads(self) -> int:
        """The largest number of CPU threads that a run uses."""
        return self._native.threads

    @property
    def metadata(self) -> ModelMetadata:
        """What the ONNX model says of itself: producer, version, description, custom properties."""
        known = json.loads(self._native.metadata)
        known.pop("producer_version", None)
        return ModelMetadata(**known)

    def __repr__(self) -> str:
        inputs = ", ".join(str(info) for info in self.inputs.values())
        outputs = ", ".join(str(info) for info in self.outputs.values())
        more = f", {len(self.entries)} entries" if len(self.entries) > 1 else ""
        return f"<tilewright.Model for {self._native.target}: {inputs} -> {outputs}{more}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model on arrays by position or name. Returns the output, or a tuple of several.

        Arrays are numpy's, torch's, jax's, or anything with __dlpack__ or the buffer protocol; what is returned is of
        the kind of the first one. An array that is not compact is copied, with a CopyWarning. ShapeError: the model
        was not compiled for these shapes. UsageError: a dtype, a name or a device is wrong.
        """
        given = list(args) if not kwargs and len(args) == len(self._input_names) else self._ordered(args, kwargs)
        results = self.run_ordered(given)
        return results[0] if len(results) == 1 else tuple(results)

    def run_named(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The same for names that are no Python identifiers: all outputs by name."""
        return dict(zip(self._output_names, self.run_ordered(self._ordered((), feeds))))

    def run_into(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Runs the model and writes all outputs into the given arrays, which are compact and writable."""
        given = self._ordered((), feeds)
        wanted = self._ordered_outputs(outputs)
        self._run_into(given, wanted)

    def _run_into(self, given: list[Any], wanted: list[Any]) -> None:
        native = self._serving(given)._native
        stream = _arrays.stream_of([*given, *wanted]) if self._on_device else None
        if stream is None:
            native.run_into(given, wanted)
        else:
            native.run_async(given, wanted, stream)

    def bind(self, *args: Any, **kwargs: Any) -> Binding:
        """Fixes the arrays of inputs and outputs, by name; inputs by position, too.

        Outputs that are not given are allocated here: binding.outputs has all. Later runs read what the arrays hold
        then. UsageError: an array cannot be used in place.
        """
        outputs = {name: kwargs.pop(name) for name in self._output_names if name in kwargs and name not in self.inputs}
        return self._bind(self._ordered(args, kwargs), outputs)

    def bind_named(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> Binding:
        """The same for names that are no Python identifiers, or those of both an input and an output."""
        return self._bind(self._ordered((), feeds), outputs)

    def _bind(self, given: list[Any], outputs: Mapping[str, Any]) -> Binding:
        if len(outputs) < len(self._output_names):
            outputs = {**self._allocated(given, _arrays.KEEP), **outputs}
        ordered = self._ordered_outputs(outputs)
        native = self._serving(given)._native.bind(given, ordered)
        return Binding(native, dict(zip(self._output_names, ordered)), [*given, *ordered] if self._on_device else [])

    @contextmanager
    def profile(self) -> Iterator[Profile]:
        """Calls of this thread within the block are timed step by step, which makes them slower."""
        profile = Profile()
        previous = getattr(self._profiles, "active", None)
        self._profiles.active = profile
        with self._count_lock:
            self._profiling += 1
        try:
            yield profile
        finally:
            with self._count_lock:
                self._profiling -= 1
            self._profiles.active = previous

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the artefact to that file, which tilewright.load and the command read."""
        if isinstance(self._artefact, str):
            with open(self._artefact, "rb") as file:
                write_file(path, file.read())
        else:
            write_file(path, self._artefact)

    @contextmanager
    def _words(self, *options: tuple[str, Any]) -> Iterator[tuple[str, list[str]]]:
        """The artefact as a file, and options of the command: those with a value, or that are True."""
        words = [f"--{name}" if value is True else f"--{name}={value}" for name, value in
                 (("level", self._level), ("function", self._function), *options) if value]
        if self._trusted is not None:
            words += [f"--trust={key}" for key in self._trusted or ["anyone"]]
        with _verbs.as_file(self._artefact, "model.tw") as path:
            yield path, words

    def explain(self, why: bool = False, *, group: str = "", top: int = 0, run: bool = True) -> dict[str, Any]:
        """Why each group of operators runs as it does: what `tilewright explain --json` prints.

        "groups" has the chosen kernel of each, its times in microseconds, bounds, and the other candidates with the
        reasons against them. why: also "edges" (what is fused), "values" (layouts) and "products" (of
        dequantized numbers). group, top: only those whose name has this text, only the slowest. run: whether the model runs, on random inputs, for the times of now.
        Needs the package with the compiler.
        """
        with self._words(("why", why), ("group", group), ("top", top), ("no-run", not run),
                         ("threads", self.threads)) as (path, words):
            return _verbs.explain(path, words)

    def verify(self, model: Any = None, *, entry: str = "", progress: bool | Progress | None = None) -> Verification:
        """Compares the compiled model with a reference in f64, each group on its own inputs and from end to end, on
        random inputs: what `tilewright verify` does.

        model: the ONNX model that it was compiled from (a path, bytes, an onnx.ModelProto), which is the reference
        then; without it the reference is the graph in the artefact, as it is after the compiler's graph passes. entry:
        the name of one, else all. progress: as of tilewright.compile. Needs the package with the compiler.
        """
        with ExitStack() as files:
            source = "" if model is None else files.enter_context(_verbs.as_file(model, "model.onnx"))
            path, words = files.enter_context(self._words(("entry", entry), ("source", source)))
            return _verbs.verify(path, words, progress)

    def report(self, path: str | os.PathLike[str], compare: str | os.PathLike[str] | Model | None = None, *,
               run: bool = True, verify: bool = True, peer: str = "", trace: str | os.PathLike[str] = "",
               duration: float | None = None, progress: bool | Progress | None = None) -> Report:
        """Writes a page of pictures as one HTML file: what `tilewright report` writes. A notebook shows the result.

        compare: another artefact of the same model (a path to a .tw file, or a Model). run: whether the model runs;
        verify: whether its results are compared with the reference; peer: "onnxruntime", or a file of its results;
        trace: a file to write for Perfetto; duration: seconds of measuring. Needs the package with the compiler.
        """
        with ExitStack() as files:
            other: Any = compare._artefact if isinstance(compare, Model) else compare
            if other is not None:
                other = files.enter_context(_verbs.as_file(other, "other.tw"))
            artefact, words = files.enter_context(self._words(
                ("compare", other), ("no-run", not run), ("no-verify", not verify), ("peer", peer),
                ("trace-out", os.fspath(trace)), ("duration", duration), ("threads", self.threads)))
            return _verbs.report(artefact, os.fspath(path), words, progress)

    def _ordered(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        names = self._input_names
        if not named and len(args) == len(names):
            return list(args)
        if not args and len(named) == len(names):
            try:
                return [named[name] for name in names]
            except KeyError:
                pass
        raise self._wrong_names(args, named)

    def _wrong_names(self, args: Sequence[Any], named: Mapping[str, Any]) -> UsageError:
        expected = ", ".join(str(info) for info in self.inputs.values())
        if args and named:
            return UsageError(f"arrays are given by position and by name; the model takes: {expected}")
        if args:
            return UsageError(f"{len(args)} arrays are given; the model takes {len(self.inputs)}: {expected}")
        missing = [name for name in self._input_names if name not in named]
        unknown = [name for name in named if name not in self.inputs]
        parts = ([f"missing: {', '.join(missing)}"] if missing else []) + (
            [f"not an input: {', '.join(unknown)}"] if unknown else [])
        return UsageError(f"{'; '.join(parts)}; the model takes: {expected}")

    def _ordered_outputs(self, outputs: Mapping[str, Any]) -> list[Any]:
        if set(outputs) != set(self._output_names):
            raise UsageError(f"arrays are given for the outputs: {', '.join(outputs)}; the model has: "
                             f"{', '.join(self._output_names)}")
        for name, array in outputs.items():
            if _arrays.kind_of(array) == _arrays.JAX:
                raise UsageError(f"the array for '{name}' cannot be written: jax's are immutable; give one of numpy")
        return [outputs[name] for name in self._output_names]

    def _serving(self, given: list[Any]) -> Model:
        """The model that runs arrays of these shapes."""
        return self

    def run_ordered(self, given: list[Any]) -> list[Any]:
        """Runs the model on a list of arrays, one for each input; returns a list of all outputs."""
        kind = _arrays.kind_of(given[0]) if given else _arrays.default_kind()
        profile = getattr(self._profiles, "active", None) if self._profiling else None
        if profile is not None:
            results, steps = self._serving(given)._native.run_profiled(given, kind)
            profile.add(steps)
        elif self._on_device and any(not _arrays.is_on_host(array) for array in given):
            results = list(self._allocated(given, _arrays.READ).values())
            self._run_into(given, results)
            return results
        else:
            results = self._serving(given)._native.run(given, kind)
        return self._viewed(results, kind) if self._bfloat16 else results

    def _viewed(self, results: list[Any], kind: int) -> list[Any]:
        if kind == _arrays.NUMPY:
            for index in self._bfloat16:
                results[index] = _arrays.as_bfloat16(results[index])
        return results

    def _allocated(self, given: list[Any], access: int) -> dict[str, Any]:
        """Arrays for the outputs, of the kind and on the device of the inputs."""
        model = self._serving(given)
        on_device = next((array for array in given if not _arrays.is_on_host(array)), None)
        if on_device is not None:
            outputs = model.entries[model._native.find_entry(given, access)].outputs
            return {name: _arrays.empty(on_device, info.shape, info.dtype) for name, info in outputs.items()}
        kind = _arrays.kind_of(given[0]) if given else _arrays.default_kind()
        if kind == _arrays.JAX:  # what a binding writes again and again is no array of jax
            kind = _arrays.default_kind()
        return dict(zip(self._output_names, self._viewed(model._native.empty_outputs(given, access, kind), kind)))


def _ordinal(device: str | int | None) -> int:
    if device is None or device == "cpu" or device == "cuda":
        return 0
    if isinstance(device, int):
        return device
    kind, _, number = device.partition(":")
    if kind != "cuda" or not number.isdigit():
        raise UsageError(f"the device is '{device}'; expected is 'cpu', 'cuda' or 'cuda:0'")
    return int(number)


def _with_functions(model: Model) -> Model:
    names = model._native.functions
    others = {name: Model(model._native.function(name), model._artefact, model._level, name, model._trusted)
              for name in names[1:]}
    model.functions.update(others)
    for other in others.values():
        other.functions, other.state = model.functions, model.state
    return model


def _model_beside(artefact: str | bytes, model: Any) -> Any:
    """compile_missing as a model that tilewright.compile takes."""
    if isinstance(model, (str, os.PathLike, bytes, bytearray, memoryview)) or hasattr(model, "SerializeToString"):
        return model
    if model is not True:
        raise UsageError(f"compile_missing is of type {type(model).__qualname__}; expected is the ONNX model as a path, "
                         "bytes or an onnx.ModelProto, or True")
    path = "" if isinstance(artefact, bytes) else os.path.splitext(artefact)[0] + ".onnx"
    if not os.path.exists(path):
        where = f"there is no '{path}'" if path else "the artefact is no file"
        raise UsageError(f"compile_missing: {where}; give the ONNX model that it was compiled from, as its path or bytes")
    return path


def load(source: str | os.PathLike[str] | bytes | bytearray | memoryview, device: str | int | None = None,
         threads: int = 0, level: str = "", trusted_keys: Sequence[str | os.PathLike[str]] | None = None, *,
         compile_missing: Any = None) -> Model:
    """Loads a compiled model (.tw) from a file, or from its bytes.

    device: "cuda:1", of a model for GPUs; threads: of each run, 0 for all CPUs that this process may use; level: of a
    model for several CPU levels the one to use, for example "x86-64-v3"; trusted_keys: public Ed25519 keys, PEM files
    or 64 hexadecimal digits: what none of them signed (`tilewright sign`) is a DamagedError, and nothing of it is
    mapped; [] trusts everybody, None the keys of $TILEWRIGHT_TRUSTED_KEYS.

    compile_missing: the ONNX model that the artefact was compiled from (a path, bytes, an onnx.ModelProto), or True:
    the file of the same name beside the artefact, model.onnx of model.tw. Shapes that the artefact has no entry for are
    compiled when they are first met, without measuring, as the artefact was; a thread measures then, and later runs use
    what is faster. Both are kept in the cache of compilations if the model is a file. Needs the package with the
    compiler. UsageError: the model keeps a state, or the artefact is of another one.

    DamagedError, IncompatibleError, DeviceError: the model cannot run here.
    """
    if threads < 0:
        raise UsageError(f"threads is {threads}; expected is 0 (all CPUs) or more")
    trusted = None if trusted_keys is None else [os.fspath(key) for key in trusted_keys]
    for key in trusted or []:
        if not key or ":" in key:
            raise UsageError(f"trusted_keys has {key!r}; expected are 64 hexadecimal digits or a file without ':' in its name")
    options = _runtime.LoadOptions(threads=threads, device=_ordinal(device), level=level,
                                   trusted_keys=None if trusted is None else ":".join(trusted))
    artefact: bytes | str
    if isinstance(source, (bytes, bytearray, memoryview)):
        artefact = bytes(source)
        native = _runtime.Model.load_bytes(artefact, options)
    else:
        artefact = os.fspath(source)
        native = _runtime.Model.load_file(artefact, options)
    if compile_missing is None or compile_missing is False:
        return _with_functions(Model(native, artefact, level, trusted=trusted))
    from ._by_shapes import GrowingModel  # which needs this module
    return GrowingModel(native, artefact, level, trusted, _model_beside(artefact, compile_missing),
                        {"device": device, "threads": threads})
