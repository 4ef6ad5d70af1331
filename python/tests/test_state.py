"""What a model keeps from one run to the next."""
from __future__ import annotations

from typing import Any

import models
import numpy as np
import pytest
import tilewright as tw


@pytest.fixture
def counter(artefacts: Any) -> tw.Model:
    return artefacts(models.counter, state={"before": "total"}).load()  # type: ignore[no-any-return]


def state_of(model: tw.Model) -> tw.State:
    assert model.state is not None
    return model.state


def test_runs_go_on_from_each_other(counter: tw.Model) -> None:
    assert list(counter.inputs) == ["x"] and list(counter.outputs) == ["y"]
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(counter(x), [-1, -2])
    np.testing.assert_array_equal(counter(x), [-2, -4])
    binding = counter.bind(x)
    binding.run()
    np.testing.assert_array_equal(binding.outputs["y"], [-3, -6])


def test_get_set_reset(counter: tw.Model) -> None:
    state = state_of(counter)
    (name,) = state.values
    x = np.array([1, 2], np.float32)
    counter(x)
    np.testing.assert_array_equal(state.get(name), [1, 2])
    state.set(name, np.array([10, 20], np.float32))
    np.testing.assert_array_equal(counter(x), [-11, -22])
    state.reset()
    np.testing.assert_array_equal(counter(x), [-1, -2])


def test_save_and_load(counter: tw.Model, in_folder: Any) -> None:
    state = state_of(counter)
    x = np.array([1, 2], np.float32)
    counter(x)
    state.save("s.safetensors")
    counter(x)
    state.load(in_folder / "s.safetensors")
    np.testing.assert_array_equal(counter(x), [-2, -4])
    with pytest.raises(tw.Error, match="nowhere"):
        state.load("nowhere.safetensors")


def test_errors(counter: tw.Model) -> None:
    state = state_of(counter)
    with pytest.raises(tw.UsageError, match="keeps no 'other'"):
        state.get("other")
    with pytest.raises(tw.UsageError):
        state.set(next(iter(state.values)), np.zeros(3, np.float32))


def test_initial_values(artefacts: Any) -> None:
    model = artefacts(models.counter, state={"before": ("total", np.array([5, 7], np.float32))}).load()
    np.testing.assert_array_equal(model(np.zeros(2, np.float32)), [-5, -7])


def test_no_state(dense: tw.Model) -> None:
    assert dense.state is None
