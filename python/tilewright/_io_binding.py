"""onnxruntime's IOBinding: arrays are bound once, runs neither copy nor allocate."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _arrays
from ._errors import UsageError
from ._model import Binding
from ._ort_types import OrtValue, array_at

if TYPE_CHECKING:
    from ._session import InferenceSession


class IOBinding:
    """Made by InferenceSession.io_binding()."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._wanted: dict[str, Any] = {}  # an array, or None where the run allocates one
        self._results: dict[str, Any] = {}
        self._bound: Binding | None = None

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        self._bind_input(name, arr_on_cpu)

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int],
                   buffer_ptr: int) -> None:
        self._bind_input(name, _memory(device_type, element_type, shape, buffer_ptr))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._bind_input(name, ortvalue.array)

    def _bind_input(self, name: str, array: Any) -> None:
        self._inputs[name] = array
        self._bound = None

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Sequence[int] | None = None, buffer_ptr: int | None = None) -> None:
        """Without buffer_ptr the first run allocates the output, in the memory of the inputs."""
        is_given = buffer_ptr is not None and shape is not None
        self._bind_output(name, _memory(device_type, element_type, shape, buffer_ptr) if is_given else None)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._bind_output(name, ortvalue.array)

    def _bind_output(self, name: str, array: Any) -> None:
        self._wanted[name] = array
        self._bound = None

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()
        self._bound = None

    def clear_binding_outputs(self) -> None:
        self._wanted.clear()
        self._results.clear()
        self._bound = None

    def run(self) -> None:
        """One run of the session on what is bound."""
        if self._bound is None:
            model, feeds = self._session.model_for(self._inputs)
            outputs = {name: array for name, array in self._wanted.items() if array is not None}
            unknown = [name for name in self._wanted if name not in model.outputs]
            if unknown:
                raise UsageError(f"not an output: {', '.join(unknown)}; the model has: {', '.join(model.outputs)}")
            self._bound = model.bind_named(feeds, outputs)
            self._results = {name: self._bound.outputs[name] for name in self._wanted}
        self._bound.run()
        self._bound.synchronize()  # as there: who reads the outputs need not know of streams

    def synchronize_inputs(self) -> None:
        """Accepted: a run begins when its inputs are there."""

    def synchronize_outputs(self) -> None:
        """Accepted: a run ends when its outputs are there."""

    def get_outputs(self) -> list[OrtValue]:
        return [OrtValue(array) for array in self._results.values()]

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Copies of the outputs, as numpy's arrays."""
        return [OrtValue(array).numpy().copy() if _arrays.is_on_host(array) else OrtValue(array).numpy()
                for array in self._results.values()]


def _memory(device_type: str, element_type: Any, shape: Sequence[int] | None, pointer: int | None) -> Any:
    if device_type != "cpu":
        raise UsageError("memory of a GPU cannot be bound by its address: bind an OrtValue of a torch tensor, "
                         "OrtValue.from_dlpack(tensor)")
    return array_at(int(pointer or 0), tuple(shape or ()), element_type)
