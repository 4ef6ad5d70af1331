"""tilewright.Trainer: training steps, gradients and evaluation of an ONNX model as functions of one artefact."""
from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from . import _progress, _verbs
from ._compile import Artefact, _dim_text, _shape_text
from ._errors import UsageError
from ._model import Model, State, load

_MAGIC = b"\x89TW\r\n\x1a\n\0"
_FORMATS = {"float32": "f", "float64": "d", "int32": "i", "int64": "q"}


def _is_artefact(model: Any) -> bool:
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model).endswith(".tw")
    return isinstance(model, Artefact) or (isinstance(model, (bytes, bytearray, memoryview)) and
                                           bytes(model[:len(_MAGIC)]) == _MAGIC)


def _words(named: Mapping[str, Any], shapes: Mapping[str, Any] | None, dims: Mapping[str, Any] | None) -> list[str]:
    """Options as the command takes them."""
    words = [f"--shape={name}:{_shape_text(shape)}" for name, shape in (shapes or {}).items()]
    words += [f"--dim={name}={_dim_text(values)}" for name, values in (dims or {}).items()]
    for name, value in named.items():
        option = name.replace("_", "-")
        if value is False or value is None:
            continue
        for item in value if isinstance(value, (list, tuple)) else [value]:
            words.append(f"--{option}" if item is True else f"--{option}={item}")
    return words


def _number(value: Any, dtype: str) -> Any:
    """A number as an array without dimensions."""
    if not isinstance(value, (int, float)) or dtype not in _FORMATS:
        return value
    code = _FORMATS[dtype]
    return memoryview(struct.pack(code, value)).cast(code, ())  # type: ignore[call-overload]


class Trainer:
    """Trains an ONNX model, whose parameters, moments of the optimizer and number of steps stay on the device.

        trainer = tilewright.Trainer("model.onnx", loss="cross_entropy", optimizer="adamw")
        for x, labels in batches:
            loss = trainer.step(x, labels=labels, lr=1e-3)
        trainer.export_weights("trained.onnx")

    model: a path to an ONNX file, its bytes, an onnx.ModelProto; or what `tilewright train` wrote (a .tw file, its
        bytes, a tilewright.Artefact), for which there are no further options but device, threads and level.
    loss: "cross_entropy" (labels: int64 [n, ..], the mean of -log softmax at the labels), "mse" (labels as the output,
        the mean of squared differences), "bce" (labels from 0 to 1, the mean binary cross-entropy of logits), "output"
        (no labels: the model's own output of one element).
    optimizer: "sgd", "adam", "adamw", "lamb"; with momentum, weight_decay, clip_norm, average and what else
        `tilewright train` takes, with _ for -.
    train: patterns of names of the parameters that change; the others stay constants.
    shapes, dims, target, dtype, progress, device, threads: as of tilewright.compile.

    Arrays are those that tilewright.Model takes: numpy's, torch's, anything with __dlpack__ or the buffer protocol, on
    the host or on the model's device. UsageError: an option, a name or a dtype is wrong. ModelError: the loss does not
    fit the model, or no parameter is trained. UnsupportedError: an operator on the way has no gradient. ShapeError: the
    batch has a shape that was not compiled. InputValueError: a label is no class; the state is invalid then.
    """

    def __init__(self, model: Any, *, loss: str | None = None, optimizer: str | None = None,
                 train: str | Sequence[str] | None = None, shapes: Mapping[str, Any] | None = None,
                 dims: Mapping[str, Any] | None = None, device: str | int | None = None, threads: int = 0,
                 level: str = "", progress: bool | _progress.Progress | None = None, **options: Any) -> None:
        named = {"loss": loss, "optimizer": optimizer, "train": list([train] if isinstance(train, str) else train or []),
                 **options}
        self._source: Any = None
        if _is_artefact(model):
            given = [name for name, value in named.items() if value] + ["shapes"] * bool(shapes) + ["dims"] * bool(dims)
            if given:
                raise UsageError(f"{', '.join(given)}: for an ONNX model; this one is compiled already")
            content = model.content if isinstance(model, Artefact) else model
        else:
            self._source = model
            content = self._compile(model, _words(named, shapes, dims), progress)
        is_ours = self._source is not None or isinstance(model, Artefact)
        loaded = load(content, device, threads, level, trusted_keys=[] if is_ours else None)
        if not {"step", "grads", "eval"} <= set(loaded.functions):
            raise UsageError("the artefact trains nothing: make one with `tilewright train`, or give the ONNX model")
        self._functions = loaded.functions
        #: The parameters' names, those of the ONNX model.
        self.parameters = tuple(name.removesuffix(".grad") for name in list(self._functions["grads"].outputs)[1:])

    def _compile(self, model: Any, words: list[str], progress: bool | _progress.Progress | None) -> bytes:
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder, _verbs.as_file(model, "model.onnx") as path:
            output = os.path.join(folder, "model.tw")
            result = _verbs.call(["train", path, "--json", f"--output={output}", *words], progress)
            #: What the compilation says of itself, as `tilewright train --json` prints it.
            self.compilation: Mapping[str, Any] = json.loads(result.output)
            with open(output, "rb") as file:
                return file.read()

    @property
    def functions(self) -> Mapping[str, Model]:
        """"step", "grads" and "eval" as models that share the state: bind, profile, explain, verify.."""
        return self._functions

    @property
    def state(self) -> State:
        """Parameters, moments and counters by name: get, set, reset, save and load. A run that goes on from a file that
        save wrote has the bits of one that was never interrupted."""
        state = self._functions["step"].state
        assert state is not None
        return state

    def _run(self, function: str, batch: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        model = self._functions[function]
        feeds = dict(named)
        for name, array in zip((name for name in model.inputs if name not in named), batch):
            feeds[name] = array
        if len(feeds) != len(batch) + len(named):
            raise UsageError(f"{len(batch)} arrays are given by position; '{function}' takes: "
                             f"{', '.join(map(str, model.inputs.values()))}")
        for name in feeds.keys() & model.inputs.keys():
            if not model.inputs[name].shape:
                feeds[name] = _number(feeds[name], model.inputs[name].dtype)
        return list(model.run_named(feeds).values())

    def step(self, *batch: Any, lr: float, labels: Any = None, **named: Any) -> float:
        """One step: forward pass, loss, gradients, optimizer. Returns the loss before it.

        batch: the model's inputs in their order, or by name. labels: as the loss wants them. lr: the learning rate of
        this step. named: further inputs of the step by name. A step that raises InputValueError leaves the state
        invalid: load or reset it.
        """
        values = self._run("step", batch, {**self._labels(labels), "learning_rate": lr, **named})
        return float(_scalar(values[0]))

    def grads(self, *batch: Any, labels: Any = None, **named: Any) -> tuple[float, dict[str, Any]]:
        """The loss and its gradient by each parameter's name, of the parameter's shape and dtype; no state changes."""
        loss, *gradients = self._run("grads", batch, {**self._labels(labels), **named})
        return float(_scalar(loss)), dict(zip(self.parameters, gradients))

    def evaluate(self, *batch: Any, labels: Any = None, **named: Any) -> tuple[Any, float]:
        """The model's output and the loss; of loss="output" None and the loss. No state changes."""
        *outputs, loss = self._run("eval", batch, {**self._labels(labels), **named})
        return outputs[0] if outputs else None, float(_scalar(loss))

    def _labels(self, labels: Any) -> dict[str, Any]:
        return {} if labels is None else {"labels": labels}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the artefact, a .tw file: code, and the values that the state began with. state.save is for those of
        now."""
        self._functions["step"].save(path)

    def export_weights(self, path: str | os.PathLike[str], model: Any = None) -> dict[str, Any]:
        """Writes the ONNX model with the trained parameters, all else as it was; returns what `tilewright
        export-weights --json` prints.

        model: the ONNX model; by default the one that the trainer was made of. UsageError: it has other initializers.
        """
        source = self._source if model is None else model
        if source is None:
            raise UsageError("the trainer was made of an artefact: give the ONNX model, too")
        with ExitStack() as files:
            folder = files.enter_context(tempfile.TemporaryDirectory(prefix="tilewright-"))
            onnx = files.enter_context(_verbs.as_file(source, "model.onnx"))
            state = os.path.join(folder, "state.safetensors")
            self.state.save(state)
            result = _verbs.call(["export-weights", onnx, f"--state={state}", f"--output={os.fspath(path)}", "--json"])
            document: dict[str, Any] = json.loads(result.output)
            return document


def _scalar(array: Any) -> Any:
    """The one element of an array of no dimensions."""
    return array.item() if hasattr(array, "item") else memoryview(array)[()]
