"""Tensors, modules and torch.compile; not run where torch is not installed."""
from __future__ import annotations

import warnings
from typing import Any

import models
import numpy as np
import pytest
import tilewright as tw

torch = pytest.importorskip("torch", reason="torch is not installed")
needs_export = pytest.mark.skipif(
    not all(__import__("importlib").util.find_spec(name) for name in ("onnx", "onnxscript")),
    reason="torch.onnx needs the package onnxscript")


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(32, 4))


def test_tensors_in_and_out(dense: tw.Model) -> None:
    x = torch.randn(1, 64)
    y = dense(x)
    assert isinstance(y, torch.Tensor) and y.dtype == torch.float32
    np.testing.assert_allclose(y.numpy(), models.dense_expected(x.numpy()), rtol=1e-5, atol=1e-5)
    out = torch.empty(1, 64)
    dense.run_into({"x": x}, {"y": out})
    assert torch.equal(out, y)
    binding = dense.bind(x)
    x.mul_(2)
    binding.run()
    assert torch.equal(binding.outputs["y"], dense(x))
    assert torch.equal(dense(x.clone().requires_grad_()), dense(x))
    with pytest.warns(tw.CopyWarning, match="not contiguous"):
        dense(torch.zeros(1, 128)[:, ::2])
    with pytest.raises(tw.UsageError, match="cannot be used in place: it is not contiguous"):
        dense.run_into({"x": x}, {"y": torch.zeros(1, 128)[:, ::2]})


def test_bfloat16_tensors(artefacts: Any) -> None:
    x = torch.tensor([1, 2, -3, 0.5], dtype=torch.bfloat16)
    assert torch.equal(artefacts(models.bfloat16).load()(x), x + x)


@needs_export
def test_modules(in_folder: Any) -> None:
    net, x = network().eval(), torch.randn(3, 16)
    model = tw.compile(net, example_inputs=(x,))
    torch.testing.assert_close(model(x), net(x).detach(), rtol=1e-4, atol=1e-5)
    with pytest.raises(tw.UsageError, match="without example_inputs"):
        tw.compile(net)


@needs_export
def test_torch_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tw.Model] = []
    compile_plain = tw._compile.compile

    def compile_and_keep(*args: Any, **kwargs: Any) -> tw.Model:
        made.append(compile_plain(*args, **kwargs))
        return made[-1]
    monkeypatch.setattr(tw._compile, "compile", compile_and_keep)
    net = network().eval()
    compiled = torch.compile(net, backend="tilewright")
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("error", tw.FallbackWarning)
        for batch in (3, 3, 5, 3, 7):
            x = torch.randn(batch, 16)
            torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)
    # Once for each shape of a graph; Dynamo makes a second graph when the shape changes. Parameters are not inputs.
    assert [model.inputs["in0"].shape for model in made] == [(3, 16), (5, 16), (3, 16), (7, 16)]
    assert all(list(model.inputs) == ["in0"] for model in made)


@needs_export
def test_parameters_are_frozen_until_they_change() -> None:
    net = network().eval()
    compiled = torch.compile(net, backend="tilewright", options={"fallback": False})
    x = torch.randn(3, 16)
    with torch.no_grad():
        compiled(x)
        net[0].weight.mul_(2)
        torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)


@needs_export
def test_falls_back_loudly() -> None:
    net = network().eval()
    compiled = torch.compile(net, backend="tilewright")
    x = torch.randn(3, 16)
    with pytest.warns(tw.FallbackWarning, match="gradients are enabled") as caught:
        y = compiled(x)
        compiled(x)
    assert len([w for w in caught if w.category is tw.FallbackWarning]) == 1
    y.sum().backward()
    assert net[0].weight.grad is not None
    torch._dynamo.reset()
    with pytest.raises(Exception, match="gradients are enabled"):
        torch.compile(net, backend="tilewright", options={"fallback": False})(x)


@needs_export
def test_training_mode_falls_back() -> None:
    net = network().train()
    with torch.no_grad(), pytest.warns(tw.FallbackWarning):
        torch.compile(net, backend="tilewright")(torch.randn(3, 16))


class Counting(torch.nn.Module):  # type: ignore[misc]
    """Changes a buffer in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: Any) -> Any:
        self.count.add_(1)
        return x + self.count


@needs_export
def test_changes_in_place_are_not_lost() -> None:
    net = Counting()
    compiled = torch.compile(net, backend="tilewright")
    with torch.no_grad(), pytest.warns(tw.FallbackWarning, match="changes tensors in place"):
        assert torch.equal(compiled(torch.zeros(4)), torch.ones(4))
        assert torch.equal(compiled(torch.zeros(4)), torch.full((4,), 2.0))
    with pytest.raises(tw.UnsupportedError, match="changes tensors in place"):
        tw.compile(Counting(), example_inputs=(torch.zeros(4),))


@needs_export
def test_dynamic_shapes_and_structures() -> None:
    net = torch.nn.Linear(16, 4)
    compiled = torch.compile(lambda x, k: {"a": net(x) * k, "b": [x.sum(-1)]}, backend="tilewright", dynamic=True,
                             options={"fallback": False})
    with torch.inference_mode():
        for batch in (2, 5, 2):
            x = torch.randn(batch, 16)
            result = compiled(x, 2.0)
            torch.testing.assert_close(result["a"], net(x) * 2, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(result["b"][0], x.sum(-1), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_calls_are_work_of_the_current_stream() -> None:
    model = tw.compile(models.dense(size=1024, batch=256), target="cuda")
    w = torch.from_numpy(models.weights(1024, 1024)).cuda()
    seed = torch.randn(256, 1024, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(20):
            x = seed.clone()
            for _ in range(50):  # work that a run which does not wait for this stream would overtake
                x = x * 1.01
            y = model(x)
            x.fill_(0)  # nor may this overtake the run
            expected = torch.relu((seed * 1.01 ** 50) @ w)
            torch.testing.assert_close(y, expected, rtol=2e-2, atol=2e-1)
