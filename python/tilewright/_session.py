"""onnxruntime's InferenceSession on Tilewright: scripts run with the import line changed."""
from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import _arrays, _compile, _devices, _onnx_info
from ._by_shapes import ByShapes
from ._errors import FallbackWarning, UsageError
from ._io_binding import IOBinding
from ._model import Model, TensorInfo, load
from ._ort_functions import CPU, CUDA, get_available_providers
from ._ort_types import (ModelMetadata, NodeArg, OrtDevice, OrtValue, RunOptions, SessionOptions, options_of,
                         type_text)
from ._profile import Profile
from ._warn import warn

_ARTEFACT = b"\x89TW\r\n\x1a\n\x00"  # the first bytes of a .tw file

def _chosen(providers: Sequence[Any] | None, provider_options: Sequence[Mapping[str, Any]] | None
            ) -> tuple[list[str], int]:
    """The providers that are used, and the ordinal of the GPU."""
    available = get_available_providers()
    used, ordinal = [], 0
    for index, provider in enumerate(providers or [CPU]):
        name, options = provider if isinstance(provider, tuple) else (provider, {})
        if provider_options is not None:
            options = {**options, **provider_options[index]}
        if name in available:
            used.append(name)
            ordinal = int(options.get("device_id", ordinal))
        else:
            warn(f"the provider '{name}' is not available; available are: {', '.join(available)}", FallbackWarning)
    return used if CPU in used else [*used, CPU], ordinal


def _is_artefact(source: str | bytes) -> bool:
    if isinstance(source, bytes):
        return source.startswith(_ARTEFACT)
    with open(source, "rb") as file:
        return file.read(len(_ARTEFACT)) == _ARTEFACT


def _node_arg(info: _onnx_info.Value | TensorInfo, dimensions: Mapping[str, int]) -> NodeArg:
    shape = [dimensions.get(extent, extent) if isinstance(extent, str) else extent for extent in info.shape]
    return NodeArg(info.name, type_text(info.dtype), shape)


class InferenceSession:
    """A model as onnxruntime serves it. path_or_bytes: an ONNX model, or an artefact (.tw).

    A model whose shapes are all known is compiled here. One with symbolic dimensions is compiled by its first run with
    each combination of shapes. Artefacts of files are kept in the cache, so that the next process has them at once.
    """

    def __init__(self, path_or_bytes: str | os.PathLike[str] | bytes, sess_options: SessionOptions | None = None,
                 providers: Sequence[Any] | None = None, provider_options: Sequence[Mapping[str, Any]] | None = None,
                 **kwargs: Any) -> None:
        self._source = path_or_bytes if isinstance(path_or_bytes, bytes) else os.fspath(path_or_bytes)
        self._options = options_of(sess_options, kwargs)
        self._providers, self._ordinal = _chosen(providers, provider_options)
        self._models = ByShapes(self._compiled)
        self._callers = ThreadPoolExecutor(thread_name_prefix="tilewright-run-async")  # its threads begin when needed
        self._profile = Profile() if self._options.enable_profiling else None
        self._started = time.time_ns()
        self._array_types: set[type] = set()  # that runs take as they are
        self._fixed: Model | None = None
        self._dimensions: dict[str, int] = {}  # of the model, that the options fix
        self._interface: _onnx_info.Interface | None = None
        self._open()
        self._input_names = [arg.name for arg in self.get_inputs()]
        self._output_names = [arg.name for arg in self.get_outputs()]

    def _open(self) -> None:
        if _is_artefact(self._source):
            self._fixed = load(self._source, self._ordinal, self._options.intra_op_num_threads)
            return
        self._interface = _onnx_info.read(self._source)
        extents = {extent for value in self._interface.inputs for extent in value.shape}
        self._dimensions = {name: extent for name, extent in self._options.dimensions.items() if name in extents}
        if all(isinstance(extent, int) or extent in self._dimensions for extent in extents):
            self._fixed = self._compiled(None)

    def _compiled(self, shapes: Mapping[str, tuple[int, ...]] | None) -> Model:
        options = self._options.compile_options()
        options.setdefault("target", _devices.cuda_target(self._ordinal) if self._providers[0] == CUDA else "cpu")
        return _compile.compile(self._source, shapes=shapes, dims=self._dimensions, device=self._ordinal,
                                threads=self._options.intra_op_num_threads, **options)

    def _model_for(self, feeds: Mapping[str, Any]) -> Model:
        if self._fixed is not None:
            return self._fixed
        return self._models.get(tuple(feeds), list(feeds.values()))

    def _checked(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays behind the feeds, which have the names of the model's inputs."""
        if len(feeds) != len(self._input_names) or any(name not in feeds for name in self._input_names):
            unknown = [name for name in feeds if name not in self._input_names]
            missing = [name for name in self._input_names if name not in feeds]
            known = ", ".join(f"{arg.name} {arg.type}{arg.shape}" for arg in self.get_inputs())
            wrong = f"not an input: {', '.join(unknown)}" if unknown else f"missing: {', '.join(missing)}"
            raise UsageError(f"{wrong}; the model takes: {known}")
        return {name: feeds[name] if type(feeds[name]) in self._array_types else self._array(name, feeds[name])
                for name in self._input_names}

    def _array(self, name: str, value: Any) -> Any:
        if isinstance(value, OrtValue):
            return value.array
        if hasattr(value, "__dlpack__") and hasattr(value, "shape"):
            self._array_types.add(type(value))
            return value
        dtype = next(arg.type for arg in self.get_inputs() if arg.name == name)[len("tensor("):-1]
        numpy_name = {"float": "float32", "double": "float64"}.get(dtype, dtype)
        return importlib.import_module("numpy").asarray(value, _arrays.numpy_dtype(numpy_name))

    def _selected(self, output_names: Sequence[str] | None, results: list[Any]) -> list[Any]:
        if not output_names:
            return results
        unknown = [name for name in output_names if name not in self._output_names]
        if unknown:
            raise UsageError(f"not an output: {', '.join(unknown)}; the model has: {', '.join(self._output_names)}")
        return [results[self._output_names.index(name)] for name in output_names]

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
            run_options: RunOptions | None = None) -> list[Any]:
        """Runs the model on arrays by name. Returns the outputs of these names, or all: numpy's arrays for numpy's."""
        if run_options is not None and run_options.terminate:
            raise UsageError("run_options.terminate is set")
        feeds = self._checked(input_feed)
        model = self._model_for(feeds)
        given = [feeds[name] for name in model.inputs]
        if self._profile is None:
            results = model.run_ordered(given)
        else:
            with model.profile() as profile:
                results = model.run_ordered(given)
            self._profile.runs.extend(profile.runs)
        return self._selected(output_names, results)

    def run_with_ort_values(self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: RunOptions | None = None) -> list[OrtValue]:
        return [OrtValue(array) for array in self.run(output_names, input_dict_ort_values, run_options)]

    def run_async(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
                  callback: Callable[[list[Any], Any, str], None], user_data: Any,
                  run_options: RunOptions | None = None) -> None:
        """Starts a run and returns. callback(results, user_data, error) follows in another thread: with an empty error,
        or without results where the run fails. The arrays stay as they are until then. Names that are missing or
        unknown are a UsageError here."""
        feeds = self._checked(input_feed)
        self._callers.submit(self._run_for, callback, user_data, output_names, feeds, run_options)

    def _run_for(self, callback: Callable[[list[Any], Any, str], None], user_data: Any, *what: Any) -> None:
        results: list[Any] = []
        problem = ""
        try:
            results = self.run(*what)
        except Exception as error:  # whatever it is, the caller waits for the callback
            problem = str(error) or type(error).__name__
        try:
            callback(results, user_data, problem)
        except Exception:  # the caller's own: shown as that of any thread
            threading.excepthook(threading.ExceptHookArgs([*sys.exc_info(), threading.current_thread()]))

    def run_with_ortvaluevector(self, run_options: RunOptions | None, feed_names: Sequence[str],
                                feeds: Sequence[OrtValue], fetch_names: Sequence[str], fetches: list[OrtValue],
                                fetch_devices: Sequence[OrtDevice]) -> None:
        """Runs the model on values in the order of feed_names. Where `fetches` is empty, the outputs of fetch_names are
        appended to it, each on its device; values that it has are written in place."""
        wanted = (len(fetches) or len(fetch_names), len(fetch_devices))
        if len(feeds) != len(feed_names) or wanted != (len(fetch_names), len(fetch_names)):
            raise UsageError(f"{len(feeds)} values are given for {len(feed_names)} feed_names, {len(fetches)} fetches "
                             f"(expected is none, or all) and {len(fetch_devices)} devices for {len(fetch_names)} "
                             "fetch_names")
        given = dict(zip(feed_names, feeds))
        if not fetches:
            results = self.run_with_ort_values(fetch_names, given, run_options)
            fetches.extend(value.on(device) for value, device in zip(results, fetch_devices))
            return
        binding = self.io_binding()
        for name, value in given.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in zip(fetch_names, fetches):
            binding.bind_ortvalue_output(name, value)
        self.run_with_iobinding(binding, run_options)

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        iobinding.run()

    def model_for(self, feeds: Mapping[str, Any]) -> tuple[Model, dict[str, Any]]:
        """The model for these feeds, compiled if it has to be, and the arrays behind them."""
        arrays = self._checked(feeds)
        return self._model_for(arrays), arrays

    def get_inputs(self) -> list[NodeArg]:
        values = self._interface.inputs if self._interface is not None else self._artefact_infos("inputs")
        return [_node_arg(value, self._dimensions) for value in values]

    def get_outputs(self) -> list[NodeArg]:
        values = self._interface.outputs if self._interface is not None else self._artefact_infos("outputs")
        return [_node_arg(value, self._dimensions) for value in values]

    def _artefact_infos(self, role: str) -> list[Any]:
        assert self._fixed is not None
        return list(getattr(self._fixed, role).values())

    def get_overridable_initializers(self) -> list[NodeArg]:
        return []

    def get_modelmeta(self) -> ModelMetadata:
        info = self._interface
        if info is None:
            assert self._fixed is not None
            return self._fixed.metadata
        return ModelMetadata(info.producer, info.graph_name, info.domain, info.description, info.graph_description,
                             info.version, dict(info.metadata))

    def get_providers(self) -> list[str]:
        return list(self._providers)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {name: {"device_id": str(self._ordinal)} if name == CUDA else {} for name in self._providers}

    def set_providers(self, providers: Sequence[Any] | None = None,
                      provider_options: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Compiles for the first of these that is available."""
        chosen = _chosen(providers, provider_options)
        if chosen != (self._providers, self._ordinal):
            self._providers, self._ordinal = chosen
            self._models.clear()
            self._fixed = None
            self._open()

    def get_session_options(self) -> SessionOptions:
        return self._options

    def get_profiling_start_time_ns(self) -> int:
        return self._started

    def end_profiling(self) -> str:
        """Writes the times of all runs to a file, as onnxruntime does, and returns its name; "" without
        enable_profiling. Each step is a node: args.op_name are the ONNX nodes that it computes."""
        if self._profile is None:
            return ""
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(self._started / 1e9))
        name = f"{self._options.profile_file_prefix}_{stamp}.json"
        self._profile.to_node_events(name)
        return name

    def enable_fallback(self) -> None:
        """Accepted; there is nothing to fall back to."""

    def disable_fallback(self) -> None:
        """Accepted; there is nothing to fall back to."""
