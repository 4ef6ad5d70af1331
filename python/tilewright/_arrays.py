"""Arrays of callers: whose they are, and what to do with those that cannot be used as they are.

Nothing here imports numpy or torch unless the caller's array is one of theirs.
"""
from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

from ._errors import CopyWarning, UsageError
from ._warn import warn

# The numbers of `enum class Kind` (src/array.h).
NUMPY, TORCH, JAX, MEMORYVIEW, DLPACK = range(5)
# The numbers of `enum class Access`.
READ, KEEP, WRITE = range(3)

_KINDS = {"numpy": NUMPY, "torch": TORCH, "jax": JAX, "jaxlib": JAX, "builtins": MEMORYVIEW, "array": MEMORYVIEW}
_known_types: dict[type, int] = {}


def kind_of(array: Any) -> int:
    """Whose array it is: what a run that takes it returns."""
    cls = type(array)
    kind = _known_types.get(cls)
    if kind is None:
        kind = next((_KINDS[root] for base in cls.__mro__ if (root := base.__module__.partition(".")[0]) in _KINDS
                     and base is not object), DLPACK)
        _known_types[cls] = kind
    return kind


def default_kind() -> int:
    """What a run without arrays returns: numpy's where it is installed."""
    try:
        importlib.import_module("numpy")
    except ImportError:
        return MEMORYVIEW
    return NUMPY


def is_on_host(array: Any) -> bool:
    """Whether the array is in the memory of the host."""
    device = getattr(array, "__dlpack_device__", None)
    return device is None or int(device()[0]) in (1, 3)  # kDLCPU, kDLCUDAHost


def _current_stream(arrays: Sequence[Any]) -> Any:
    for array in arrays:
        package = type(array).__module__.partition(".")[0]
        if package not in ("torch", "cupy") or is_on_host(array):
            continue
        if package == "torch":
            return sys.modules["torch"].cuda.current_stream(array.device)
        with array.device:
            return sys.modules["cupy"].cuda.get_current_stream()
    return None


def stream_of(arrays: Sequence[Any]) -> int | None:
    """The stream that the package of these arrays puts its work on now, in this thread: of torch's or cupy's arrays on
    a GPU. Work that goes there sees what was computed for them, without waiting (DLPack, "Synchronization": producer
    and consumer are on one stream). None: there is no such array."""
    stream = _current_stream(arrays)
    return None if stream is None else int(stream.cuda_stream if hasattr(stream, "cuda_stream") else stream.ptr)


def wait_for(arrays: Sequence[Any]) -> None:
    """Returns when the work on that stream is done."""
    stream = _current_stream(arrays)
    if stream is not None:
        stream.synchronize()


def empty(like: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """An uninitialised array on the device of `like`, of its package."""
    package = type(like).__module__.partition(".")[0]
    if package == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, dtype), device=like.device)
    if package == "cupy":
        with like.device:
            return sys.modules["cupy"].empty(shape, dtype)
    raise UsageError(f"{_text(like)} is on a device, where only torch and cupy can be asked for memory: give the "
                     "outputs, too, with run_into")


def numpy_dtype(name: str) -> Any:
    """numpy's dtype of that name; bfloat16 is one of the package ml_dtypes."""
    if name == "bfloat16":
        try:
            return importlib.import_module("numpy").dtype(importlib.import_module("ml_dtypes").bfloat16)
        except ImportError:
            raise UsageError("numpy has no bfloat16: install the package ml_dtypes, or give arrays of torch") from None
    return importlib.import_module("numpy").dtype(name)


def as_bfloat16(array: Any) -> Any:
    """The same memory of a numpy array of uint16 as bfloat16."""
    return array.view(numpy_dtype("bfloat16"))


def adapt(name: str, array: Any, access: int) -> tuple[Any, bool]:
    """An array that DLPack can describe, compact and aligned, and whether its uint16 are bfloat16.

    Called by the module _runtime for arrays that it cannot use as they are. What is only read is copied, with a
    CopyWarning; else UsageError says what to change.
    """
    if type(array).__module__.partition(".")[0] == "numpy":
        return _adapt_numpy(name, array, access)
    if kind_of(array) == TORCH:
        return _adapt_torch(name, array, access), False
    if hasattr(array, "__dlpack__"):
        if access == WRITE:
            raise UsageError(f"{_text(array)} for '{name}' cannot be written: give a compact, writable array")
        raise UsageError(f"{_text(array)} for '{name}' is neither compact nor can be copied here: give a compact one")
    try:
        view = memoryview(array)
    except TypeError:
        raise UsageError(f"{_text(array)} is given for '{name}'; expected is an array: numpy's, torch's, jax's, or "
                         "anything with __dlpack__ or the buffer protocol") from None
    return _adapt_buffer(name, view, access), False


def _adapt_numpy(name: str, array: Any, access: int) -> tuple[Any, bool]:
    numpy = sys.modules["numpy"]
    if array.dtype.name == "bfloat16":
        if not array.flags.c_contiguous:
            array = _copied(name, "it is not contiguous", access, lambda: numpy.ascontiguousarray(array))
        return array.view(numpy.uint16), True
    if array.dtype.kind not in "biuf":
        raise UsageError(f"the array for '{name}' has dtype {array.dtype}, which no model takes")
    if access == WRITE and not array.flags.writeable:
        raise UsageError(f"the array for '{name}' is read-only")
    if not array.dtype.isnative:
        native = array.dtype.newbyteorder("=")
        reason = "its bytes are in the other order"
        return _copied(name, reason, access, lambda: numpy.array(array, native, order="C")), False
    reason = "it is not aligned" if not array.flags.aligned else "it is not contiguous"
    return _copied(name, reason, access, lambda: numpy.array(array, order="C", copy=True)), False


def _adapt_torch(name: str, array: Any, access: int) -> Any:
    plain = array.detach().resolve_conj().resolve_neg()
    if not plain.is_contiguous():
        return _copied(name, "it is not contiguous", access, plain.contiguous)
    return plain


def _adapt_buffer(name: str, view: memoryview, access: int) -> Any:
    if access == WRITE and view.readonly:
        raise UsageError(f"the buffer for '{name}' is read-only")
    if view.format[:1] in (">", "!", "<", "="):
        raise UsageError(f"the buffer for '{name}' has the format '{view.format}'; expected is a native one")
    if view.contiguous and view.c_contiguous:
        raise UsageError(f"the buffer for '{name}' has the format '{view.format}', which no model takes")
    shape = view.shape or ()
    return _copied(name, "it is not contiguous", access,
                   lambda: memoryview(view.tobytes()).cast("B").cast(view.format, shape))  # type: ignore[call-overload]


def _copied(name: str, reason: str, access: int, copy: Any) -> Any:
    if access != READ:
        raise UsageError(f"the array for '{name}' cannot be used in place: {reason}; give a compact one")
    warn(f"the array for '{name}' is copied before the run: {reason}", CopyWarning)
    return copy()


def _text(array: Any) -> str:
    cls = type(array)
    return f"{cls.__module__}.{cls.__qualname__}" if cls.__module__ != "builtins" else cls.__qualname__
