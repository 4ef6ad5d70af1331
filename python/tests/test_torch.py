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
    with pytest.raises(tw.UsageError, match="requires gradients"):
        dense.run_into({"x": x}, {"y": torch.empty(1, 64, requires_grad=True)})


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
def test_torch_compile() -> None:
    net = network().eval()
    compiled = torch.compile(net, backend="tilewright")
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("error", tw.FallbackWarning)
        for batch in (3, 3, 5):
            x = torch.randn(batch, 16)
            torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)


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
