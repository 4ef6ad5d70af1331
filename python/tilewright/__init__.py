"""Tilewright: compiles ONNX models to native code for x86 CPUs and NVIDIA GPUs, and runs them.

    import tilewright as tw
    model = tw.compile("model.onnx")     # or tw.load("model.tw")
    y = model(x)
"""
from ._compile import Artefact, compile, compile_artefact, refit, target_names
from ._errors import (CopyWarning, DamagedError, DeviceError, Error, FailureError, FallbackWarning, IncompatibleError,
                      InputValueError, InternalError, ModelError, OutOfMemoryError, ShapeError, UnsupportedError,
                      UsageError)
from ._io_binding import IOBinding
from ._model import Binding, Entry, Model, State, TensorInfo, load
from ._ort_types import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, ModelMetadata, NodeArg, OrtValue,
                         RunOptions, SessionOptions)
from ._profile import Profile, Step
from ._runtime import version as _version
from ._session import InferenceSession, get_available_providers, get_device

__version__ = _version()

__all__ = [
    "Artefact", "Binding", "CopyWarning", "DamagedError", "DeviceError", "Entry", "Error", "ExecutionMode",
    "ExecutionOrder", "FailureError", "FallbackWarning", "GraphOptimizationLevel", "IOBinding", "IncompatibleError",
    "InferenceSession", "InputValueError", "InternalError", "Model", "ModelError", "ModelMetadata", "NodeArg",
    "OrtValue", "OutOfMemoryError", "Profile", "RunOptions", "SessionOptions", "ShapeError", "State", "Step",
    "TensorInfo", "UnsupportedError", "UsageError", "compile", "compile_artefact", "get_available_providers",
    "get_device", "load", "refit", "target_names"]
