"""Trainers: steps, gradients, evaluation, state, and weights that go back into the model."""
from __future__ import annotations

from typing import Any

import models
import numpy as np
import onnx
import pytest
import tilewright as tw

X = np.linspace(-1, 1, 4 * 3, dtype=np.float32).reshape(4, 3)
LABELS = np.linspace(1, -1, 4 * 2, dtype=np.float32).reshape(4, 2)


@pytest.fixture(scope="module")
def artefact() -> bytes:
    trainer = tw.Trainer(models.linear(), loss="mse", optimizer="adam")
    assert trainer.compilation["parameters"] == 2
    return trainer.functions["step"]._artefact  # type: ignore[return-value]


@pytest.fixture
def trainer(artefact: bytes) -> tw.Trainer:
    return tw.Trainer(artefact)


def loss_of(state: tw.State) -> float:
    y = X @ state.get("w") + state.get("b")
    return float(np.mean((y - LABELS) ** 2))


def test_a_training(trainer: tw.Trainer) -> None:
    assert trainer.parameters == ("w", "b") and set(trainer.functions) == {"step", "grads", "eval"}
    begin = loss_of(trainer.state)
    losses = [trainer.step(X, labels=LABELS, lr=0.05) for _ in range(30)]
    assert losses[0] == pytest.approx(begin, rel=1e-5) and losses[-1] < 0.5 * losses[0]
    y, loss = trainer.evaluate(x=X, labels=LABELS)
    np.testing.assert_allclose(y, X @ trainer.state.get("w") + trainer.state.get("b"), rtol=1e-5, atol=1e-5)
    assert loss == pytest.approx(loss_of(trainer.state), rel=1e-5) and trainer.state.get("step") == 30


def test_gradients(trainer: tw.Trainer) -> None:
    loss, gradients = trainer.grads(X, labels=LABELS)
    off = 2 * (X @ trainer.state.get("w") + trainer.state.get("b") - LABELS) / LABELS.size
    assert loss == pytest.approx(loss_of(trainer.state), rel=1e-5)
    np.testing.assert_allclose(gradients["w"], X.T @ off, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradients["b"], off.sum(0), rtol=1e-5, atol=1e-6)
    assert trainer.state.get("step") == 0


def test_resuming_has_the_same_bits(trainer: tw.Trainer, artefact: bytes, in_folder: Any) -> None:
    for _ in range(3):
        trainer.step(X, labels=LABELS, lr=0.05)
    trainer.state.save("s.safetensors")
    losses = [trainer.step(X, labels=LABELS, lr=0.05) for _ in range(5)]
    other = tw.Trainer(artefact, threads=1)
    other.state.load("s.safetensors")
    assert [other.step(X, labels=LABELS, lr=0.05) for _ in range(5)] == losses
    for name in trainer.state.values:
        np.testing.assert_array_equal(trainer.state.get(name), other.state.get(name))


def test_trained_weights_in_the_model(in_folder: Any) -> None:
    trainer = tw.Trainer(models.linear(), loss="mse", optimizer="sgd", momentum=0.5)
    for _ in range(4):
        trainer.step(X, labels=LABELS, lr=0.05)
    document = trainer.export_weights("trained.onnx")
    assert document["replaced"] == ["b", "w"] and document["ignored"] == ["b.v", "skipped_steps", "w.v"]
    y, _ = trainer.evaluate(X, labels=LABELS)
    np.testing.assert_allclose(tw.compile("trained.onnx")(X), y, rtol=1e-5, atol=1e-5)


def test_external_data_is_in_the_new_file(in_folder: Any) -> None:
    onnx.save(models.linear(), "far.onnx", save_as_external_data=True, location="far.data", size_threshold=0)
    trainer = tw.Trainer("far.onnx", loss="mse", optimizer="sgd", train="w")
    trainer.step(X, labels=LABELS, lr=0.1)
    document = trainer.export_weights("near.onnx")
    assert (document["replaced"], document["kept"]) == (["w"], 1)
    (in_folder / "far.data").unlink()
    trained = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load("near.onnx").graph.initializer}
    np.testing.assert_array_equal(trained["w"], trainer.state.get("w"))
    np.testing.assert_array_equal(trained["b"], np.array([0.5, -0.25], np.float32))


def test_only_some_parameters(in_folder: Any) -> None:
    trainer = tw.Trainer(models.linear(), loss="mse", optimizer="sgd", train="b*")
    assert trainer.parameters == ("b",) and list(trainer.state.values) == ["b", "skipped_steps"]
    trainer.save("b.train.tw")
    assert tw.Trainer("b.train.tw").parameters == ("b",)


def test_functions_as_models(trainer: tw.Trainer) -> None:
    step, evaluation = trainer.functions["step"], trainer.functions["eval"]
    assert list(step.inputs) == ["x", "labels", "learning_rate"] and list(evaluation.outputs) == ["y", "loss"]
    assert step.functions["eval"] is evaluation and evaluation.state is step.state
    binding = evaluation.bind(X, LABELS)
    binding.run()
    before = float(binding.outputs["loss"])
    trainer.step(X, labels=LABELS, lr=0.1)
    binding.run()
    assert float(binding.outputs["loss"]) < before
    assert [entry["entry"] for entry in evaluation.verify().document["entries"]] == ["eval"]


def values_of(state: tw.State) -> dict[str, Any]:
    return {name: np.array(state.get(name)) for name in state.values}


def test_a_learning_rate_of_0(trainer: tw.Trainer) -> None:
    before = values_of(trainer.state)
    assert trainer.step(X, labels=LABELS, lr=0) == pytest.approx(loss_of(trainer.state), rel=1e-5)
    after = values_of(trainer.state)
    for name in trainer.parameters:
        np.testing.assert_array_equal(before[name], after[name])
        assert np.any(after[f"{name}.m"] != 0)
    assert after["step"] == 1 and after["skipped_steps"] == 0


def test_a_batch_that_is_not_finite(trainer: tw.Trainer) -> None:
    before = values_of(trainer.state)
    for number in (np.nan, np.inf):
        x = X.copy()
        x[1, 2] = number
        assert np.isnan(trainer.step(x, labels=LABELS, lr=0.1))
        loss, gradients = trainer.grads(x, labels=LABELS)
        assert not np.isfinite(loss) and not np.isfinite(gradients["w"]).all()
    assert np.isnan(trainer.step(X, labels=LABELS, lr=float("inf")))
    after = values_of(trainer.state)
    assert after.pop("skipped_steps") == 3 and before.pop("skipped_steps") == 0
    for name, value in after.items():
        np.testing.assert_array_equal(before[name], value)
    assert np.isfinite(trainer.step(X, labels=LABELS, lr=0.1))


def test_an_empty_batch(trainer: tw.Trainer) -> None:
    for run in (lambda: trainer.step(X[:0], labels=LABELS[:0], lr=0.1), lambda: trainer.grads(X[:0], labels=LABELS[:0]),
                lambda: trainer.evaluate(X[:0], labels=LABELS[:0])):
        with pytest.raises(tw.ShapeError, match=r"\[0, ?3\]"):
            run()
    assert np.isfinite(trainer.step(X, labels=LABELS, lr=0.1))


def test_errors(trainer: tw.Trainer, dense: tw.Model, in_folder: Any) -> None:
    with pytest.raises(tw.UsageError, match="learning_rate"):
        trainer.functions["step"](X, LABELS)
    with pytest.raises(tw.UsageError, match="labels"):
        trainer.step(X, lr=0.1)
    with pytest.raises(tw.ShapeError):
        trainer.step(X[:2].copy(), labels=LABELS, lr=0.1)
    with pytest.raises(tw.UsageError, match="compiled already"):
        tw.Trainer(trainer.functions["step"]._artefact, loss="mse")
    dense.save("dense.tw")
    with pytest.raises(tw.UsageError, match="trains nothing"):
        tw.Trainer("dense.tw")
    with pytest.raises(tw.UsageError, match="hinge"):
        tw.Trainer(models.linear(), loss="hinge")
    with pytest.raises(tw.UsageError, match="ONNX model, too"):
        trainer.export_weights("new.onnx")


def test_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    module = tw.torch_module(models.linear(), loss="mse")
    twin = {name: torch.nn.Parameter(parameter.detach().clone()) for name, parameter in module.named_parameters()}
    assert set(twin) == {"w", "b"}
    ours = torch.optim.Adam(module.parameters(), lr=0.05)
    theirs = torch.optim.Adam(twin.values(), lr=0.05)
    x, labels = torch.from_numpy(X), torch.from_numpy(LABELS)
    for _ in range(10):
        ours.zero_grad()
        theirs.zero_grad()
        loss = module(x, labels)
        (2 * loss).backward()
        want = torch.nn.functional.mse_loss(x @ twin["w"] + twin["b"], labels)
        (2 * want).backward()
        torch.testing.assert_close(loss, want, rtol=1e-5, atol=1e-6)
        for name, parameter in module.named_parameters():
            torch.testing.assert_close(parameter.grad, twin[name].grad, rtol=1e-4, atol=1e-6)
        ours.step()
        theirs.step()
    with torch.no_grad():
        assert module(x, labels) < 0.9 * want and not module(x, labels).requires_grad
    y, _ = module.evaluate(x, labels)
    torch.testing.assert_close(y, x @ twin["w"] + twin["b"], rtol=1e-3, atol=1e-3)


def test_torch_names_and_changes() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    module = tw.torch_module(models.linear("layers.0.weight", "forward"), loss="mse")
    names = {name for name, _ in module.named_parameters()}
    assert names == {"layers.0.weight", "parameter_forward"}
    x, labels = torch.from_numpy(X), torch.from_numpy(LABELS)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        assert float(module(x, labels)) == pytest.approx(float(labels.square().mean()), rel=1e-6)
    module.double().float()
    loss = module(x, labels=labels)
    loss.backward()
    assert all(parameter.grad is not None for parameter in module.parameters())
