"""torch.compile(module, backend="tilewright"): inference of what Dynamo captures, compiled to native code.

    with torch.inference_mode():
        y = torch.compile(module, backend="tilewright")(x)

Parameters and buffers become constants of the compiled model, so that they are packed once; when one of them is
replaced or changed in place, the next call compiles anew. Changes that torch does not count are not seen: through
`.data`, and of tensors made under inference_mode. options={"fallback": False} raises where otherwise torch runs
the graph and a FallbackWarning says why; all other options are those of tilewright.compile.
"""
from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from . import _compile, _devices, _torch_export
from ._errors import Error, FallbackWarning, UnsupportedError
from ._model import Model
from ._warn import warn


def _is_constant(node: torch.fx.Node, example: Any) -> bool:
    """Whether the input is a parameter or buffer of the module."""
    static = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
    return isinstance(example, torch.Tensor) and (isinstance(example, torch.nn.Parameter) or static is not None)


def _place(tensors: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Where the model runs: where its tensors are."""
    gpu = next((tensor.device for tensor in tensors if tensor.is_cuda), None)
    if gpu is None:
        return {}
    target = _devices.cuda_target(gpu.index)
    if target is None:
        raise UnsupportedError(f"there is no code for the GPU {gpu}")
    return {"target": target, "device": gpu.index}


class _Frozen(torch.nn.Module):
    """A captured graph whose constants are buffers, and whose other arguments are tensors only."""

    def __init__(self, graph: torch.fx.GraphModule, args: Sequence[Any], is_open: Sequence[bool]) -> None:
        super().__init__()
        self._graph = graph
        self._numbers: dict[int, Any] = {}
        self._is_open = is_open
        for index, arg in enumerate(args):
            if is_open[index]:
                continue
            if isinstance(arg, torch.Tensor):
                self.register_buffer(f"constant_{index}", arg.detach(), persistent=True)
            else:
                self._numbers[index] = arg

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        args = [next(given) if is_open else self._numbers[index] if index in self._numbers
                else getattr(self, f"constant_{index}") for index, is_open in enumerate(self._is_open)]
        return self._graph(*args)


class _Compiled:
    """Models of one state of the constants, by the shapes of the other arguments."""

    def __init__(self, constants: Sequence[Any]) -> None:
        self._constants = list(constants)  # held, so that no other tensor gets their place
        self._states = [self._state(tensor) for tensor in constants]
        self.models: dict[Any, Model | None] = {}

    @staticmethod
    def _state(tensor: torch.Tensor) -> tuple[int, int]:
        return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version

    def holds(self, constants: Sequence[Any]) -> bool:
        return len(constants) == len(self._constants) and all(
            old is new and state == self._state(new)
            for old, new, state in zip(self._constants, constants, self._states))


class _Graph:
    """What torch calls in the place of the captured graph."""

    def __init__(self, graph: torch.fx.GraphModule, examples: Sequence[Any], options: Mapping[str, Any]) -> None:
        self._graph = graph
        self._options = {name: value for name, value in options.items() if name != "fallback"}
        self._may_fall_back = bool(options.get("fallback", True))
        placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._constants = [i for i, node in enumerate(placeholders) if _is_constant(node, examples[i])]
        self._frozen: _Compiled = _Compiled([])
        self._lock = threading.Lock()
        self._has_warned = False

    def __call__(self, *args: Any) -> Any:
        if torch.is_grad_enabled() and any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args):
            return self._fallback(args, "gradients are enabled: call it under torch.inference_mode() or no_grad()")
        constants = [args[i] for i in self._constants]
        key = tuple(tuple(arg.shape) if isinstance(arg, torch.Tensor) else arg for arg in args)
        frozen = self._frozen
        if not frozen.holds(constants) or key not in frozen.models:
            with self._lock:
                frozen = self._frozen
                if not frozen.holds(constants):
                    frozen = self._frozen = _Compiled(constants)
                if key not in frozen.models:
                    frozen.models[key] = self._compiled(args)
        model = frozen.models[key]
        if model is None:
            return self._graph(*args)
        tensors = [args[i].contiguous() for i in self._open(args)]
        results = model(*tensors)
        return results if isinstance(results, tuple) else (results,)

    def _open(self, args: Sequence[Any]) -> list[int]:
        """Which arguments the compiled model takes: tensors that are no constants."""
        constants = set(self._constants)
        return [i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor) and i not in constants]

    def _compiled(self, args: Sequence[Any]) -> Model | None:
        taken = self._open(args)
        frozen = _Frozen(self._graph, args, [i in set(taken) for i in range(len(args))])
        (result,) = (node.args[0] for node in self._graph.graph.nodes if node.op == "output")
        count = len(result) if isinstance(result, (tuple, list)) else 1
        names = ([f"in{i}" for i in range(len(taken))], [f"out{i}" for i in range(count)])
        try:
            with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
                path = _torch_export.export(frozen, [args[i] for i in taken], None, folder, names)
                model = _compile.compile(path, **{**_place([args[i] for i in taken]), **self._options})
            if list(model.inputs) != names[0] or list(model.outputs) != names[1]:
                raise UnsupportedError("the exported graph has other inputs or outputs than the captured one")
            return model
        except Error as error:
            if not self._may_fall_back:
                raise
            self._warn(str(error))
            return None

    def _fallback(self, args: Sequence[Any], reason: str) -> Any:
        if not self._may_fall_back:
            raise UnsupportedError(f"torch.compile(backend='tilewright'): {reason}")
        self._warn(reason)
        return self._graph(*args)

    def _warn(self, reason: str) -> None:
        if not self._has_warned:
            warn(f"torch runs this graph, not Tilewright: {reason}", FallbackWarning)
        self._has_warned = True


def backend(graph: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None,
            **kwargs: Any) -> Callable[..., Any]:
    """Called by torch.compile with what Dynamo captured."""
    return _Graph(graph, example_inputs, options or {})
