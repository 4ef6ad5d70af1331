"""tilewright.load and tilewright.Model."""
from __future__ import annotations

import array
import json
import sys
import threading
import time
import types
from typing import Any

import models
import numpy as np
import pytest
import tilewright as tw
from tilewright import _arrays


def random(*shape: int, seed: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_describes_itself(dense: tw.Model) -> None:
    assert dense.inputs == {"x": tw.TensorInfo("x", (1, 64), "float32")}
    assert dense.outputs == {"y": tw.TensorInfo("y", (1, 64), "float32")}
    assert len(dense.entries) == 1 and dense.entries[0].inputs == dense.inputs
    assert dense.target.startswith("x86-64") and dense.threads == 1
    assert str(dense.inputs["x"]) == "x: float32[1, 64]"


def test_runs_by_position_and_by_name(dense: tw.Model) -> None:
    x = random(1, 64)
    for y in (dense(x), dense(x=x), dense.run_named({"x": x})["y"]):
        assert type(y) is np.ndarray and y.dtype == np.float32 and y.shape == (1, 64)
        np.testing.assert_allclose(y, models.dense_expected(x), rtol=1e-5, atol=1e-5)


def test_several_inputs_and_outputs(artefacts: Any) -> None:
    model = artefacts(models.two_by_two).load()
    a, b = random(2, 3, seed=1), random(2, 3, seed=2)
    total, greater = model(b=b, a=a)
    np.testing.assert_array_equal(total, a + b)
    np.testing.assert_array_equal(greater, a > b)
    assert greater.dtype == np.bool_
    np.testing.assert_array_equal(model(a, b)[1], a > b)


def test_results_outlive_model_and_later_runs(artefacts: Any) -> None:
    model = artefacts(models.dense).load()
    x = random(1, 64)
    first = model(x)
    expected = first.copy()
    model(-x)
    del model
    np.testing.assert_array_equal(first, expected)
    first += 1  # writable


@pytest.mark.parametrize("make", [memoryview, lambda x: array.array("f", x[0].tolist())], ids=["memoryview", "array"])
def test_buffers_give_memoryviews(artefacts: Any, make: Any) -> None:
    model = artefacts(models.dense).load()
    x = random(1, 64)
    given = make(x)
    if given.__class__ is array.array:
        given = memoryview(given).cast("B").cast("f", (1, 64))
    y = model(given)
    assert type(y) is memoryview and y.format == "f" and y.shape == (1, 64)
    np.testing.assert_array_equal(np.asarray(y), model(x))


def test_read_only_input(dense: tw.Model) -> None:
    x = random(1, 64)
    expected = dense(x)
    x.flags.writeable = False
    np.testing.assert_array_equal(dense(x), expected)


@pytest.mark.parametrize("change, reason", [
    (lambda x: np.asfortranarray(np.repeat(x, 2, 0))[:1], "not contiguous"), (lambda x: x.astype(">f4"), "other order"),
    (lambda x: x[:, ::-1], "not contiguous"), (lambda x: np.frombuffer(b"\0" + x.tobytes(), "u1")[1:].view("f4")[None],
                                               "not aligned")], ids=["strided", "byte order", "reversed", "unaligned"])
def test_copies_with_a_warning(dense: tw.Model, change: Any, reason: str) -> None:
    x = random(1, 64)
    given = change(x)
    with pytest.warns(tw.CopyWarning, match=f"'x' is copied.*{reason}") as caught:
        y = dense(given)
    np.testing.assert_array_equal(y, dense(np.array(given, np.float32, order="C")))
    assert caught[0].filename == __file__


def test_strided_memoryview_is_copied(dense: tw.Model) -> None:
    x = random(1, 64)
    wide = np.zeros((1, 128), np.float32)
    wide[:, ::2] = x
    with pytest.warns(tw.CopyWarning):
        y = dense(memoryview(wide[:, ::2]))
    np.testing.assert_array_equal(np.asarray(y), dense(x))


def test_wrong_dtype_names_both(dense: tw.Model) -> None:
    with pytest.raises(tw.UsageError, match=r"'x'.*f64.*f32") as caught:
        dense(random(1, 64).astype(np.float64))
    assert not isinstance(caught.value, tw.ShapeError) and isinstance(caught.value, ValueError)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("shape", [(2, 64), (64,), (1, 64, 1)])
def test_wrong_shape_says_given_and_compiled(dense: tw.Model, shape: tuple[int, ...]) -> None:
    with pytest.raises(tw.ShapeError) as caught:
        dense(random(*shape))
    assert caught.value.given == {"x": shape}
    assert caught.value.compiled == [{"x": (1, 64)}]


def test_shape_of_an_output_says_given_and_compiled(dense: tw.Model) -> None:
    with pytest.raises(tw.ShapeError, match=r"output 'y' has shape \[1,32\], wanted is \[1,64\]") as caught:
        dense.run_into({"x": random(1, 64)}, {"y": np.empty((1, 32), np.float32)})
    assert (caught.value.given, caught.value.compiled) == ({"y": (1, 32)}, [{"y": (1, 64)}])


def test_shape_of_a_second_input_says_given_and_compiled(artefacts: Any) -> None:
    model = artefacts(models.two_by_two).load()
    with pytest.raises(tw.ShapeError) as caught:
        model(random(2, 3), random(3, 3))
    assert caught.value.given == {"a": (2, 3), "b": (3, 3)}
    assert caught.value.compiled == [{"a": (2, 3), "b": (2, 3)}]
    with pytest.raises(tw.ShapeError) as caught:
        model.bind(random(2, 3), random(2))
    assert (caught.value.given, caught.value.compiled) == ({"b": (2,)}, [{"b": (2, 3)}])


@pytest.mark.parametrize("call, text", [
    (lambda m, x: m(), "missing: x; the model takes: x: float32[1, 64]"),
    (lambda m, x: m(x, x), "2 arrays are given"), (lambda m, x: m(z=x), "missing: x; not an input: z"),
    (lambda m, x: m(x, y=x), "by position and by name"), (lambda m, x: m([1.0]), "list is given for 'x'"),
    (lambda m, x: m(np.array(["a"])), "dtype <U1"), (lambda m, x: m.run_into({"x": x}, {"q": x}), "the model has: y"),
])
def test_wrong_arguments(dense: tw.Model, call: Any, text: str) -> None:
    with pytest.raises(tw.UsageError) as caught:
        call(dense, random(1, 64))
    assert text in str(caught.value)


def test_value_out_of_range(artefacts: Any) -> None:
    model = artefacts(models.lookup).load()
    np.testing.assert_array_equal(model(np.array([5, 0, 1])), [[10, 11], [0, 1], [2, 3]])
    with pytest.raises(tw.InputValueError):
        model(np.array([6, 0, 1]))
    np.testing.assert_array_equal(model(np.array([0, 0, 1])), [[0, 1], [0, 1], [2, 3]])


def test_run_into(dense: tw.Model) -> None:
    x, y = random(1, 64), np.full((1, 64), np.nan, np.float32)
    assert dense.run_into({"x": x}, {"y": y}) is None  # type: ignore[func-returns-value]
    np.testing.assert_array_equal(y, dense(x))
    y.flags.writeable = False
    with pytest.raises(tw.UsageError, match="read-only"):
        dense.run_into({"x": x}, {"y": y})
    with pytest.raises(tw.UsageError, match="not contiguous"):
        dense.run_into({"x": x}, {"y": np.zeros((1, 128), np.float32)[:, ::2]})
    with pytest.raises(tw.UsageError, match="overlaps"):
        dense.run_into({"x": x}, {"y": x})


def test_binding_reads_and_writes_in_place(dense: tw.Model) -> None:
    x, y = random(1, 64), np.zeros((1, 64), np.float32)
    binding = dense.bind(x=x, y=y)
    binding.run()
    np.testing.assert_array_equal(y, dense(x))
    x *= -2
    binding.run()
    np.testing.assert_array_equal(y, dense(x))
    assert binding.outputs["y"] is y
    own = dense.bind(x)
    own.run()
    np.testing.assert_array_equal(own.outputs["y"], y)
    assert len(own.measure(3)) == 3
    with pytest.raises(tw.UsageError, match="cannot be used in place: it is not contiguous"):
        dense.bind(np.zeros((1, 128), np.float32)[:, ::2])


def test_binding_keeps_its_arrays(dense: tw.Model) -> None:
    expected = dense(random(1, 64))
    binding = dense.bind(random(1, 64))
    filler = [random(1, 64, seed=i) for i in range(50)]
    binding.run()
    np.testing.assert_array_equal(binding.outputs["y"], expected)
    assert filler


def test_entries(artefacts: Any) -> None:
    model = artefacts(dense_of_any_batch, dims={"n": [1, 3]}).load()
    assert [entry.inputs["x"].shape for entry in model.entries] == [(1, 64), (3, 64)]
    for batch in (3, 1):
        x = random(batch, 64)
        np.testing.assert_allclose(model(x), models.dense_expected(x), rtol=1e-5, atol=1e-5)
    with pytest.raises(tw.ShapeError) as caught:
        model(random(2, 64))
    assert caught.value.compiled == [{"x": (1, 64)}, {"x": (3, 64)}]


def dense_of_any_batch() -> Any:
    return models.dense(batch="n")


def test_bfloat16(artefacts: Any) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    model = artefacts(models.bfloat16).load()
    x = np.array([1, 2, -3, 0.5], ml_dtypes.bfloat16)
    y = model(x)
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y.astype(np.float32), 2 * x.astype(np.float32))


def test_many_threads(artefacts: Any) -> None:
    model = artefacts(models.dense).load(threads=1)
    inputs = [random(1, 64, seed=i) for i in range(8)]
    expected = [model(x) for x in inputs]
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(200):
            if not np.array_equal(model(inputs[index]), expected[index]):
                wrong.append(index)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_runs_release_the_gil(artefacts: Any) -> None:
    binding = artefacts(wide).load(threads=1).bind(random(512, 1024))
    count = int(0.5e9 / min(binding.measure(3))) + 1
    longest, last = 0.0, time.perf_counter()
    thread = threading.Thread(target=lambda: binding.measure(count))
    thread.start()
    while thread.is_alive():
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
        time.sleep(0.001)
    thread.join()
    assert longest < 0.25  # one call of half a second; who holds Python's lock keeps this thread from going on


def wide() -> Any:
    return models.dense(1024, 512)


def test_profile(artefacts: Any, in_folder: Any) -> None:
    model = artefacts(convolutions).load()
    x = random(1, 32, 28, 28)
    expected = model(x)
    with model.profile() as profile:
        np.testing.assert_array_equal(model(x), expected)
        model(x)
    model(x)
    assert len(profile.runs) == 2 and len(profile.steps) >= 2
    assert any("c0" in step.name or "Conv" in step.name or "r0" in step.name for step in profile.steps)
    assert profile.microseconds == sum(step.microseconds for step in profile.steps) > 0
    profile.to_chrome_trace("trace.json")
    with open("trace.json", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    assert len(events) == 2 * len(profile.steps) and {event["ph"] for event in events} == {"X"}
    assert all(a["ts"] + a["dur"] <= b["ts"] + 0.002 for a, b in zip(events, events[1:]))


def convolutions() -> Any:
    return models.convolutions(2)


def test_load_and_save(artefacts: Any, in_folder: Any) -> None:
    content = artefacts(models.dense).content
    x = random(1, 64)
    from_bytes = tw.load(content)
    from_bytes.save("m.tw")
    from_file = tw.load(in_folder / "m.tw", threads=1)
    from_file.save("again.tw")
    assert (in_folder / "m.tw").read_bytes() == (in_folder / "again.tw").read_bytes() == content
    np.testing.assert_array_equal(from_file(x), from_bytes(x))
    assert sorted(path.name for path in in_folder.iterdir()) == ["again.tw", "m.tw"]


def test_load_errors(artefacts: Any, in_folder: Any) -> None:
    content = bytearray(artefacts(models.dense).content)
    content[len(content) // 2] ^= 1
    with pytest.raises(tw.DamagedError) as caught:
        tw.load(content)
    assert caught.value.exit_code == 5 and caught.value.kind == "damaged"
    with pytest.raises(tw.DamagedError):
        tw.load(content[:100])
    with pytest.raises(tw.UsageError, match="threads is -1; expected is 0"):
        tw.load("m.tw", threads=-1)
    with pytest.raises(tw.UsageError, match="'gpu'; expected is 'cpu', 'cuda' or 'cuda:0'"):
        tw.load("m.tw", device="gpu")
    with pytest.raises(tw.Error, match="nowhere.tw"):
        tw.load("nowhere.tw")


def test_a_call_costs_little_beyond_the_c_interface(artefacts: Any) -> None:
    model = artefacts(models.dense).load(threads=1)
    binding = model.bind(random(1, 64))
    beyond = []
    for _ in range(50):  # the least disturbed of them
        start = time.perf_counter_ns()
        for _ in range(1000):
            binding.run()
        called = (time.perf_counter_ns() - start) / 1000
        beyond.append(called - sum(binding.measure(1000)) / 1000)
    assert min(beyond) <= 1500


class OnDevice:
    """What torch's tensors on a GPU say of themselves."""

    __module__ = "torch"
    device = "cuda:1"

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 1)


def test_work_goes_to_the_current_stream_of_the_arrays_package(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def current_stream(device: str) -> Any:
        asked.append(device)
        return types.SimpleNamespace(cuda_stream=94, synchronize=lambda: asked.append("wait"))
    torch = types.ModuleType("torch")
    monkeypatch.setattr(torch, "cuda", types.SimpleNamespace(current_stream=current_stream), raising=False)
    monkeypatch.setitem(sys.modules, "torch", torch)
    on_host = random(2)
    assert _arrays.stream_of([on_host]) is None and asked == []
    assert _arrays.stream_of([on_host, OnDevice()]) == 94 and asked == ["cuda:1"]
    _arrays.wait_for([on_host])
    _arrays.wait_for([OnDevice(), on_host])
    assert asked == ["cuda:1", "cuda:1", "wait"]


def test_an_async_run_on_a_cpu_has_ended(dense: tw.Model) -> None:
    x, y = random(1, 64), np.zeros((1, 64), np.float32)
    dense._native.run_async([x], [y], 0)
    np.testing.assert_array_equal(y, dense(x))
    binding = dense.bind(x=x)
    binding._native.run_async(94)
    np.testing.assert_array_equal(binding.outputs["y"], y)
