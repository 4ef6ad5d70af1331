"""Tilewright: compiles ONNX models to native code for x86 CPUs and NVIDIA GPUs, and runs them.

    import tilewright as tw
    model = tw.compile("model.onnx")     # or tw.load("model.tw")
    y = model(x)
"""
import importlib
from typing import Any

from . import _devices
from ._compile import Artefact, compile, compile_artefact, refit, target_names
from ._errors import (CopyWarning, DamagedError, DeviceError, Error, FailureError, FallbackWarning, IncompatibleError,
                      InputValueError, InternalError, ModelError, OutOfMemoryError, ShapeError, UnsupportedError,
                      UsageError)
from ._io_binding import IOBinding
from ._model import Binding, Entry, Model, State, TensorInfo, load
from ._ort_functions import (disable_telemetry_events, enable_telemetry_events, get_all_providers,
                             get_available_providers, get_device, get_version_string, set_default_logger_severity,
                             set_default_logger_verbosity, set_seed)
from ._ort_types import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, ModelMetadata, NodeArg, OrtDevice,
                         OrtValue, OrtValueVector, RunOptions, SessionOptions)
from ._profile import Profile, Step
from ._runtime import version as _version
from ._session import InferenceSession
from ._train import Trainer
from ._verbs import Report, Verification

__version__ = _version()
_devices.offer_libraries()


def __getattr__(name: str) -> Any:
    if name != "torch_module":  # needs torch, which nothing else here does
        raise AttributeError(f"module 'tilewright' has no attribute '{name}'")
    return importlib.import_module("tilewright._torch_train").torch_module


__all__ = [
    "Artefact", "Binding", "CopyWarning", "DamagedError", "DeviceError", "Entry", "Error", "ExecutionMode",
    "ExecutionOrder", "FailureError", "FallbackWarning", "GraphOptimizationLevel", "IOBinding", "IncompatibleError",
    "InferenceSession", "InputValueError", "InternalError", "Model", "ModelError", "ModelMetadata", "NodeArg",
    "OrtDevice", "OrtValue", "OrtValueVector", "OutOfMemoryError", "Profile", "Report", "RunOptions",
    "SessionOptions", "ShapeError", "State", "Step", "TensorInfo", "Trainer", "UnsupportedError", "UsageError", "Verification",
    "compile", "compile_artefact", "disable_telemetry_events", "enable_telemetry_events", "get_all_providers",
    "get_available_providers", "get_device", "get_version_string", "load", "refit", "set_default_logger_severity",
    "set_default_logger_verbosity", "set_seed", "target_names"]
