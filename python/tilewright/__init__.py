"""Tilewright: compiles ONNX models to native code for x86 CPUs and NVIDIA GPUs, and runs them.

    import tilewright as tw
    model = tw.compile("model.onnx")     # or tw.load("model.tw")
    y = model(x)
"""
from ._errors import (CopyWarning, DamagedError, DeviceError, Error, FailureError, FallbackWarning, IncompatibleError,
                      InputValueError, InternalError, ModelError, OutOfMemoryError, ShapeError, UnsupportedError,
                      UsageError)
from ._model import Binding, Entry, Model, State, TensorInfo, load
from ._profile import Profile, Step
from ._runtime import version as _version

__version__ = _version()

__all__ = [
    "Binding", "CopyWarning", "DamagedError", "DeviceError", "Entry", "Error", "FailureError", "FallbackWarning",
    "IncompatibleError", "InputValueError", "InternalError", "Model", "ModelError", "OutOfMemoryError", "Profile",
    "ShapeError", "State", "Step", "TensorInfo", "UnsupportedError", "UsageError", "load"]
