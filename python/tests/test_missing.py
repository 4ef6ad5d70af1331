"""Shapes that an artefact lacks: tilewright.load(compile_missing=...)."""
from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import models
import numpy as np
import onnx
import pytest
import tilewright as tw
from onnx import helper


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def saved(in_folder: Path, **options: Any) -> tuple[str, str]:
    """An artefact for batches of 1 and 3, and its model."""
    onnx.save(models.dense(batch="n"), "m.onnx")
    tw.compile_artefact("m.onnx", dims={"n": [1, 3]}, **options).save("m.tw")
    return "m.tw", "m.onnx"


@pytest.mark.parametrize("given", ["path", "bytes", "proto", "beside"])
def test_other_shapes_are_compiled(in_folder: Path, given: str) -> None:
    artefact, path = saved(in_folder)
    source = {"path": path, "bytes": Path(path).read_bytes(), "proto": onnx.load(path), "beside": True}[given]
    model = tw.load(artefact, threads=1, compile_missing=source)
    for batch in (3, 5, 1, 5, 7):
        x = random(batch, 64)
        expected = models.dense_expected(x)
        np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-5)
        y = np.zeros((batch, 64), np.float32)
        model.run_into({"x": x}, {"y": y})
        np.testing.assert_array_equal(y, model(x))
        binding = model.bind(x)
        binding.run()
        np.testing.assert_array_equal(binding.outputs["y"], y)
    with model.profile() as profile:
        model(random(5, 64))
    assert len(profile.runs) == 1
    model.wait_for_compilations()  # better ones are right, too
    x = random(5, 64)
    np.testing.assert_allclose(model(x), models.dense_expected(x), rtol=1e-5, atol=1e-5)
    with pytest.raises(tw.Error):
        model(random(5, 32))


def test_without_it_other_shapes_are_refused(in_folder: Path) -> None:
    artefact, _ = saved(in_folder)
    with pytest.raises(tw.ShapeError):
        tw.load(artefact)(random(5, 64))


def test_compile_takes_it_too() -> None:
    model = tw.compile(models.dense(batch="n"), dims={"n": 2}, threads=1, compile_missing=True)
    x = random(9, 64)
    np.testing.assert_allclose(model(x), models.dense_expected(x), rtol=1e-5, atol=1e-5)


def test_options_are_those_of_the_artefact(in_folder: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["y"])]
    proto = models.model(nodes, [models.value("x", ["n", 4]), models.value("b", [4])], [models.value("y", ["n", 4])])
    b = random(4)
    artefact = tw.compile_artefact(proto, dims={"n": 2}, constants={"b": b})
    model = artefact.load(threads=1, compile_missing=proto)
    x = random(6, 4)
    np.testing.assert_array_equal(model(x), x + b)


@pytest.mark.parametrize("weights", ["others", "none"])
def test_another_model_is_refused(in_folder: Path, weights: str) -> None:
    artefact, _ = saved(in_folder)
    other = models.dense(batch="n")
    if weights == "others":
        other.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(models.weights(64, 64, 7), "w"))
    else:
        other = models.model([helper.make_node("Relu", ["x"], ["y"])], [models.value("x", ["n", 64])],
                             [models.value("y", ["n", 64])])
    model = tw.load(artefact, compile_missing=other)
    assert model(random(3, 64)).shape == (3, 64)
    with pytest.raises(tw.UsageError, match="another model"):
        model(random(4, 64))


def test_what_cannot_grow_is_said(in_folder: Path) -> None:
    artefact, path = saved(in_folder)
    Path(path).unlink()
    with pytest.raises(tw.UsageError, match="m.onnx"):
        tw.load(artefact, compile_missing=True)
    with pytest.raises(tw.UsageError, match="no file"):
        tw.load(Path(artefact).read_bytes(), compile_missing=True)
    with pytest.raises(tw.UsageError, match="of type int"):
        tw.load(artefact, compile_missing=3)
    counter = tw.compile_artefact(models.counter(), state={"before": "total"})
    with pytest.raises(tw.UsageError, match="state"):
        counter.load(compile_missing=models.counter())


def test_threads_meet_a_shape_at_once(in_folder: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor
    artefact, path = saved(in_folder)
    model = tw.load(artefact, threads=1, compile_missing=path)
    inputs = [random(4 + i % 3, 64) for i in range(12)]
    with ThreadPoolExecutor(6) as pool:
        for x, y in zip(inputs, pool.map(model, inputs)):
            np.testing.assert_allclose(y, models.dense_expected(x), rtol=1e-5, atol=1e-5)


def test_the_program_ends_while_better_code_is_made(in_folder: Path) -> None:
    proto = models.convolutions(12, size=56)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(proto, "c.onnx")
    tw.compile_artefact("c.onnx", dims={"n": 1}).save("c.tw")
    program = textwrap.dedent("""
        import os, time
        del os.environ["TILEWRIGHT_NO_MEASURE"]
        import numpy as np
        import tilewright as tw
        model = tw.load("c.tw", compile_missing=True)
        model(np.zeros((2, 32, 56, 56), np.float32))
        print(time.time(), flush=True)
    """)
    import time
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr, run.stderr
    assert time.time() - float(run.stdout) < 20
