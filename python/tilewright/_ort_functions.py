"""The functions of the module onnxruntime that scripts call before they open a session."""
from __future__ import annotations

from . import _devices
from ._runtime import version

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def get_available_providers() -> list[str]:
    """CPUExecutionProvider, and before it CUDAExecutionProvider where there is a GPU that Tilewright compiles for."""
    return [CUDA, CPU] if _devices.cuda_target() is not None else [CPU]


def get_all_providers() -> list[str]:
    """Those that there can be, whatever this machine has."""
    return [CUDA, CPU]


def get_device() -> str:
    """"GPU" or "CPU"."""
    return "GPU" if _devices.cuda_target() is not None else "CPU"


def get_version_string() -> str:
    """Tilewright's version."""
    return version()


def set_default_logger_severity(severity: int) -> None:
    """Accepted: Tilewright does not log."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accepted: Tilewright does not log."""


def set_seed(seed: int) -> None:
    """Accepted: no operator that Tilewright runs draws random numbers."""


def disable_telemetry_events() -> None:
    """Accepted: there is no telemetry."""


def enable_telemetry_events() -> None:
    """Accepted: there is no telemetry."""
