"""GPUs of this machine, asked of the driver, for which nothing of CUDA is needed, and libraries for them."""
from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import pathlib
from collections.abc import Callable

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


@functools.cache
def cuda_target(ordinal: int = 0) -> str | None:
    """The target for that GPU ("cuda:sm_90a"), or None where there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    asked: tuple[Callable[[], int], ...] = (
        lambda: driver.cuInit(0), lambda: driver.cuDeviceGet(ctypes.byref(device), ordinal),
        lambda: driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, device),
        lambda: driver.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, device))
    if any(ask() != 0 for ask in asked):
        return None
    # Hopper's own instructions are of the architecture 9.0a; what is before it runs code for 8.0.
    return "cuda:sm_90a" if major.value == 9 else "cuda:sm_80" if major.value == 8 else None


def offer_libraries() -> None:
    """Names the folders of a cuBLASLt and a cuDNN that Python packages brought, as torch's do, in TILEWRIGHT_LIBRARY_PATH,
    unless it is set: the system's own search does not look there."""
    spec = importlib.util.find_spec("nvidia")
    roots = [pathlib.Path(root) for root in (spec and spec.submodule_search_locations) or []]
    files = [file for root in roots for name in ("libcublasLt.so.*", "libcudnn.so.*") for file in root.glob(f"*/lib/{name}")]
    if files:
        os.environ.setdefault("TILEWRIGHT_LIBRARY_PATH", ":".join(sorted({str(file.parent) for file in files})))
