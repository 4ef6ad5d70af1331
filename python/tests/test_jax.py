"""Arrays of jax; not run where it is not installed."""
from __future__ import annotations

import models
import numpy as np
import pytest
import tilewright as tw

jax = pytest.importorskip("jax", reason="jax is not installed")


def test_arrays_in_and_out(dense: tw.Model) -> None:
    x = jax.random.normal(jax.random.PRNGKey(0), (1, 64))
    y = dense(x)
    assert isinstance(y, jax.Array) and y.dtype == np.float32
    np.testing.assert_allclose(np.asarray(y), models.dense_expected(np.asarray(x)), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.asarray(y * 2), 2 * np.asarray(y))
    with pytest.raises(tw.UsageError, match="cannot be written"):
        dense.run_into({"x": x}, {"y": y})
    binding = dense.bind(x)
    binding.run()
    assert type(binding.outputs["y"]) is np.ndarray
    np.testing.assert_array_equal(binding.outputs["y"], np.asarray(y))
