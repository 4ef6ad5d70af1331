"""The small types of onnxruntime's interface that scripts use: options, descriptions, values."""
from __future__ import annotations

import ctypes
import enum
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _arrays
from ._errors import FallbackWarning, UsageError
from ._warn import warn

# What onnxruntime calls the types.
TYPES = {"float32": "float", "float64": "double", "float16": "float16", "bfloat16": "bfloat16", "bool": "bool",
         "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8", "uint16": "uint16",
         "uint32": "uint32", "uint64": "uint64", "string": "string"}


# The numbers of TensorProto.DataType.
ELEMENT_TYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string",
                 9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64",
                 15: "complex128", 16: "bfloat16"}
_ELEMENT_NUMBERS = {name: number for number, name in ELEMENT_TYPES.items()}


def type_text(dtype: str) -> str:
    """"tensor(float)" of "float32"."""
    return f"tensor({TYPES.get(dtype, dtype)})"


class GraphOptimizationLevel(enum.IntEnum):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    DEFAULT = 0
    PRIORITY_BASED = 1


@dataclass(frozen=True)
class NodeArg:
    """An input or output: shape has numbers, names of symbolic dimensions, or None."""

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True)
class ModelMetadata:
    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


@dataclass
class RunOptions:
    """Accepted as onnxruntime has it. A run cannot be ended from outside: terminate is an error where it is set."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    entries: dict[str, str] = field(default_factory=dict)

    def add_run_config_entry(self, key: str, value: str) -> None:
        self.entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        return self.entries[key]


@dataclass
class SessionOptions:
    """onnxruntime's options of a session.

    intra_op_num_threads: of each run; 0 for all CPUs. graph_optimization_level: below ORT_ENABLE_EXTENDED nothing is
    measured while compiling. enable_profiling: end_profiling() writes the times of all steps.
    add_session_config_entry("tilewright.NAME", text) sets an option of tilewright.compile. What has no meaning here
    (memory patterns, logging, execution order) is accepted and changes nothing.
    """

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    enable_profiling: bool = False
    profile_file_prefix: str = "tilewright_profile"
    optimized_model_filepath: str = ""
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    entries: dict[str, str] = field(default_factory=dict)
    dimensions: dict[str, int] = field(default_factory=dict)
    initializers: dict[str, Any] = field(default_factory=dict)

    def add_session_config_entry(self, key: str, value: str) -> None:
        self.entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        return self.entries[key]

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fixes a symbolic dimension: the model is compiled when the session is made."""
        self.dimensions[name] = value

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        warn(f"dimensions of the denotation '{denotation}' stay open: only names are looked at", FallbackWarning)

    def register_custom_ops_library(self, path: str) -> None:
        raise UsageError(f"'{path}' has operators of its own, which Tilewright does not run")

    def compile_options(self) -> dict[str, Any]:
        """What tilewright.compile is told."""
        prefix = "tilewright."
        options: dict[str, Any] = {key[len(prefix):]: text for key, text in self.entries.items()
                                   if key.startswith(prefix)}
        if self.graph_optimization_level < GraphOptimizationLevel.ORT_ENABLE_EXTENDED:
            options.setdefault("no-measure", True)
        if self.intra_op_num_threads > 0:
            options.setdefault("measure-threads", self.intra_op_num_threads)
        return options


def array_at(pointer: int, shape: Sequence[int], element_type: Any) -> Any:
    """numpy's view of a caller's memory on the host."""
    numpy = importlib.import_module("numpy")
    dtype = numpy.dtype(element_type)
    count = int(numpy.prod(shape, dtype=numpy.int64))
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(pointer)
    return numpy.frombuffer(memory, dtype, count).reshape(shape)


@dataclass(frozen=True)
class OrtDevice:
    """Where a value is: made by OrtDevice.make("cuda", 0)."""

    kind: str
    ordinal: int

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        if ort_device_name not in ("cpu", "cuda"):
            raise UsageError(f"the device is '{ort_device_name}'; expected is 'cpu' or 'cuda'")
        return OrtDevice(ort_device_name, device_id)

    def device_type(self) -> int:
        return 0 if self.kind == "cpu" else 1

    def device_id(self) -> int:
        return self.ordinal


class OrtValue:
    """An array with onnxruntime's names. As there, it shares the memory of the array that it is made of."""

    def __init__(self, array: Any) -> None:
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(numpy_obj: Any, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
                            ) -> OrtValue:
        if device_type == "cpu":
            return OrtValue(numpy_obj)
        torch = importlib.import_module("torch")
        return OrtValue(torch.from_numpy(numpy_obj).to(f"{device_type}:{device_id}"))

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any, device_type: str = "cpu",
                                     device_id: int = 0, vendor_id: int = -1) -> OrtValue:
        numpy = importlib.import_module("numpy")
        return OrtValue.ortvalue_from_numpy(numpy.zeros(tuple(shape), element_type), device_type, device_id)

    @staticmethod
    def from_dlpack(array: Any, is_bool_tensor: bool = False) -> OrtValue:
        return OrtValue(array)

    def on(self, device: OrtDevice) -> OrtValue:
        """The value on that device: itself where it is there already."""
        there = _arrays.is_on_host(self._array) if device.kind == "cpu" else (
            tuple(self._array.__dlpack_device__()) == (2, device.ordinal))  # kDLCUDA
        return self if there else OrtValue.ortvalue_from_numpy(self.numpy(), device.kind, device.ordinal)

    def numpy(self) -> Any:
        if type(self._array).__module__.partition(".")[0] == "torch":
            return self._array.cpu().numpy()
        return self._array

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    @property
    def array(self) -> Any:
        """What it is made of."""
        return self._array

    def shape(self) -> list[int]:
        return [int(extent) for extent in self._array.shape]

    def _dtype(self) -> str:
        return str(self._array.dtype).rpartition(".")[2]

    def data_type(self) -> str:
        return type_text(self._dtype())

    def element_type(self) -> int:
        """The number that TensorProto.DataType has for the type."""
        return _ELEMENT_NUMBERS[self._dtype()]

    def device_name(self) -> str:
        return "cpu" if int(self._array.__dlpack_device__()[0]) in (1, 3) else "cuda"

    def data_ptr(self) -> int:
        return int(self._array.data_ptr() if hasattr(self._array, "data_ptr") else self._array.ctypes.data)

    def tensor_size_in_bytes(self) -> int:
        return int(self._array.nbytes)

    def is_tensor(self) -> bool:
        return True

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return False

    def has_value(self) -> bool:
        return True

    def update_inplace(self, np_arr: Any) -> None:
        """Copies the array here, which has the same shape and type."""
        if tuple(np_arr.shape) != tuple(self._array.shape) or self.data_type() != OrtValue(np_arr).data_type():
            raise UsageError(f"the value is a {self.data_type()} of shape {self.shape()}; the array has the type "
                             f"{np_arr.dtype} and the shape {list(np_arr.shape)}")
        if hasattr(self._array, "copy_"):
            self._array.copy_(importlib.import_module("torch").from_numpy(np_arr))
        else:
            self._array[...] = np_arr


class OrtValueVector(list[OrtValue]):
    """A list of values with onnxruntime's names."""

    def push_back(self, value: OrtValue) -> None:
        self.append(value)

    def reserve(self, count: int) -> None:
        """Accepted: a list grows by itself."""

    def shrink_to_fit(self) -> None:
        """Accepted: a list shrinks by itself."""


def options_of(given: SessionOptions | None, more: Mapping[str, Any]) -> SessionOptions:
    """The options of a session; names that onnxruntime takes and that mean nothing here are dropped."""
    for name in more:
        if name not in ("disabled_optimizers", "enable_fallback", "read_config_from_model"):
            raise UsageError(f"InferenceSession has no argument '{name}'")
    return given if given is not None else SessionOptions()
