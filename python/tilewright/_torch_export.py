"""torch modules as ONNX files."""
from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from ._errors import Error, ModelError, UnsupportedError, UsageError


def is_module(model: Any) -> bool:
    """Whether it is a torch.nn.Module; torch is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def export(module: Any, example_inputs: Sequence[Any] | None, dynamic_shapes: Any, folder: str,
           names: tuple[list[str], list[str]] | None = None) -> str:
    """Exports the module into `folder`, with the names of inputs and outputs, and returns the path of the ONNX file."""
    torch = sys.modules["torch"]
    if example_inputs is None:
        raise UsageError("a torch module is given without example_inputs, which torch.onnx traces it with")
    for package in ("onnx", "onnxscript"):
        try:
            importlib.import_module(package)
        except ImportError:
            raise UsageError(f"torch.onnx needs the package {package} to export a module: install it") from None
    path = os.path.join(folder, "model.onnx")
    inputs, outputs = names or (None, None)
    was_training = module.training
    module.eval()
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.export.export(module, tuple(example_inputs), dynamic_shapes=dynamic_shapes, strict=False)
            _refuse_changes(program.run_decompositions({}).graph_signature)
            torch.onnx.export(program, (), path, dynamo=True, verbose=False, external_data=True, input_names=inputs,
                              output_names=outputs)
    except Error:
        raise
    except Exception as error:  # of any part of torch: all of them mean that this module has no ONNX form
        raise ModelError(f"torch.onnx cannot export the module: {_reason(error)}") from error
    finally:
        module.train(was_training)
    return path


def _refuse_changes(signature: Any) -> None:
    """A compiled model computes its outputs and changes nothing else. The signature is that of a functional program."""
    changed = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if changed:
        raise UnsupportedError(f"the module changes tensors in place: {', '.join(changed)}")


def _reason(error: BaseException) -> str:
    """The first line of what the error began with."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
