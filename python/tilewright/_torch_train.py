"""tilewright.torch_module: the loss of an ONNX model as a torch module, whose optimizer and loop stay torch's."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from . import _arrays
from ._errors import UsageError
from ._model import Model
from ._train import Trainer


class _Loss(torch.autograd.Function):
    """loss = f(parameters). One run of `grads` gives the loss and all gradients, which the backward pass only scales."""

    @staticmethod
    def forward(ctx: Any, module: LossModule, feeds: Mapping[str, Any], *parameters: torch.Tensor) -> torch.Tensor:
        loss, *gradients = module._run("grads", feeds)
        ctx.gradients = gradients
        return loss

    @staticmethod
    def backward(ctx: Any, *of_loss: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (scale,) = of_loss
        return None, None, *(gradient * scale for gradient in ctx.gradients)


class LossModule(torch.nn.Module):
    """What tilewright.torch_module makes. Called with a batch and labels it returns the loss, f32 []."""

    def __init__(self, trainer: Trainer) -> None:
        super().__init__()
        self._functions = trainer.functions
        self._state = trainer.state
        self._trainer = trainer
        self._written: dict[str, tuple[int, int]] = {}  # address and version of what the state has
        self._parameters_by_name: dict[str, torch.nn.Parameter] = {}
        for name in trainer.parameters:
            parameter = torch.nn.Parameter(self._state.get(name, _arrays.TORCH))
            self._parameters_by_name[name] = parameter
            self._register(name, parameter)

    def _register(self, name: str, parameter: torch.nn.Parameter) -> None:
        """Under its own name, dots being submodules as torch has them, where it can have that."""
        *path, last = name.split(".")
        module: torch.nn.Module = self
        try:
            for part in path:
                if not isinstance(getattr(module, part, None), torch.nn.Module):
                    module.add_module(part, torch.nn.Module())
                module = getattr(module, part)
            module.register_parameter(last, parameter)
        except KeyError:  # the name of something that modules have
            self.register_parameter("parameter_" + name.replace(".", "_"), parameter)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        """Of to(), cuda(): parameters may become other ones."""
        before = {id(parameter): name for name, parameter in self._parameters_by_name.items()}
        order = [before[id(parameter)] for parameter in self.parameters()]
        super()._apply(*args, **kwargs)
        self._parameters_by_name.update(zip(order, self.parameters()))
        self._written.clear()
        return self

    def _write_parameters(self) -> None:
        changed = []
        for name, parameter in self._parameters_by_name.items():
            now = (parameter.data_ptr(), parameter._version)
            if self._written.get(name) != now:
                changed.append((name, parameter, now))
        _arrays.wait_for([parameter for _, parameter, _ in changed])  # the state is copied outside of torch's stream
        for name, parameter, now in changed:
            self._state.set(name, parameter.detach())
            self._written[name] = now

    def _run(self, function: str, feeds: Mapping[str, Any]) -> list[torch.Tensor]:
        self._write_parameters()
        model = self._functions[function]
        return list(model.run_named(_plain(model, feeds)).values())

    def _feeds(self, batch: Sequence[Any], labels: Any, named: Mapping[str, Any]) -> dict[str, Any]:
        feeds = {**named} if labels is None else {"labels": labels, **named}
        free = [name for name in self._functions["grads"].inputs if name not in feeds]
        if len(free) != len(batch):
            raise UsageError(f"{len(batch)} arrays are given by position; the module takes: {', '.join(free)}")
        return {**feeds, **dict(zip(free, batch))}

    def forward(self, *batch: Any, labels: Any = None, **named: Any) -> torch.Tensor:
        """The loss, from which backward() reaches all parameters. batch: the model's inputs in their order, then the
        labels, or by name. Gradients of the batch itself are not computed."""
        feeds = self._feeds(batch, labels, named)
        parameters = self._parameters_by_name.values()
        if torch.is_grad_enabled() and any(parameter.requires_grad for parameter in parameters):
            loss: torch.Tensor = _Loss.apply(self, feeds, *parameters)
            return loss
        return self._run("eval", feeds)[-1]

    def evaluate(self, *batch: Any, labels: Any = None, **named: Any) -> tuple[Any, torch.Tensor]:
        """The model's output and the loss, without gradients; of loss="output" None and the loss."""
        *outputs, loss = self._run("eval", self._feeds(batch, labels, named))
        return outputs[0] if outputs else None, loss

    def export_weights(self, path: Any, model: Any = None) -> dict[str, Any]:
        """As of tilewright.Trainer, of the parameters as they are now."""
        self._write_parameters()
        return self._trainer.export_weights(path, model)


def _plain(model: Model, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """In the order of the inputs, so that results are of the kind of the first, a tensor without a gradient."""
    def plain(array: Any) -> Any:
        return array.detach() if isinstance(array, torch.Tensor) else array
    ordered: Iterator[str] = (name for name in model.inputs if name in feeds)
    rest = {name: array for name, array in feeds.items() if name not in model.inputs}
    return {**{name: plain(feeds[name]) for name in ordered}, **rest}


def torch_module(model: Any, **options: Any) -> LossModule:
    """The loss of an ONNX model as a torch.nn.Module, for a loop that is there:

        module = tilewright.torch_module("model.onnx", loss="mse")
        optimizer = torch.optim.Adam(module.parameters())
        for x, labels in batches:
            optimizer.zero_grad()
            module(x, labels).backward()
            optimizer.step()

    model, options: as of tilewright.Trainer, or a Trainer. Parameters have the ONNX model's names and f32 values; after
    each change they are copied to the artefact's state, on the device. Batches on a GPU are used where they are, as
    work of torch's current stream; move the parameters there, too, with module.cuda(). Errors are those of
    tilewright.Trainer.
    """
    return LossModule(model if isinstance(model, Trainer) else Trainer(model, **options))
