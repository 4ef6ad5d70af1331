"""Scripts as they are written for onnxruntime, with its name for this package."""
from __future__ import annotations

import json
import os
import queue
import threading
from pathlib import Path
from typing import Any

import models
import numpy as np
import onnx
import pytest
import script_models
import tilewright as ort


@pytest.fixture
def dense_path(in_folder: Path) -> str:
    onnx.save(models.dense(), "dense.onnx")
    return "dense.onnx"


@pytest.fixture
def open_path(in_folder: Path) -> str:
    onnx.save(models.dense(batch="batch"), "open.onnx")
    return "open.onnx"


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def expected(x: np.ndarray[Any, Any]) -> Any:
    return pytest.approx(models.dense_expected(x), rel=1e-5, abs=1e-5)


def test_image_script(dense_path: str) -> None:
    session = ort.InferenceSession(dense_path, providers=["CPUExecutionProvider"])
    input_name = session.get_inputs()[0].name
    label_name = session.get_outputs()[0].name
    x = random(1, 64)
    result = session.run([label_name], {input_name: x})
    assert type(result) is list and result[0] == expected(x)
    assert session.get_inputs()[0].shape == [1, 64] and session.get_inputs()[0].type == "tensor(float)"


def test_bytes_and_artefacts(dense_path: str) -> None:
    x = random(1, 64)
    content = Path(dense_path).read_bytes()
    ort.compile(dense_path).save("dense.tw")
    for source in (content, Path(dense_path), "dense.tw", Path("dense.tw").read_bytes()):
        session = ort.InferenceSession(source)
        assert session.run(None, {"x": x})[0] == expected(x)
        assert [arg.name for arg in session.get_outputs()] == ["y"]


def test_any_batch(open_path: str) -> None:
    session = ort.InferenceSession(open_path)
    assert session.get_inputs()[0].shape == ["batch", 64] and session.get_outputs()[0].shape == ["batch", 64]
    for batch in (1, 3, 1, 2):
        x = random(batch, 64)
        assert session.run(None, {"x": x})[0] == expected(x)
    assert len(session._models.made) == 3


def test_fixed_dimension(open_path: str) -> None:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 4)
    session = ort.InferenceSession(open_path, options)
    assert session.run(None, {"x": random(4, 64)})[0] == expected(random(4, 64))
    with pytest.raises(ort.ShapeError):
        session.run(None, {"x": random(1, 64)})


def test_one_fixed_dimension_of_two(in_folder: Path) -> None:
    onnx.save(script_models.texts(), "texts.onnx")
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    options.add_free_dimension_override_by_name("of another model", 7)
    session = ort.InferenceSession("texts.onnx", options)
    assert session.get_inputs()[0].shape == [2, "length"] and session.get_outputs()[0].shape == [2, 6]
    assert session.run(None, {"ids": np.zeros((2, 4), np.int64)})[0].shape == (2, 6)
    with pytest.raises(ort.Error, match="batch"):
        session.run(None, {"ids": np.zeros((3, 4), np.int64)})


def test_runs_in_the_background(dense_path: str) -> None:
    session = ort.InferenceSession(dense_path)
    ended: queue.Queue[tuple[list[Any], Any, str, threading.Thread]] = queue.Queue()

    def callback(results: list[Any], user_data: Any, error: str) -> None:
        ended.put((results, user_data, error, threading.current_thread()))
    xs = [random(1, 64) * scale for scale in range(20)]
    for number, x in enumerate(xs):
        session.run_async(["y"], {"x": x}, callback, number)
    for _ in xs:
        results, number, error, thread = ended.get(timeout=60)
        assert error == "" and thread is not threading.current_thread()
        np.testing.assert_array_equal(results[0], session.run(["y"], {"x": xs[number]})[0])
    session.run_async(None, {"x": random(2, 64)}, callback, "wrong")
    results, user_data, error, _ = ended.get(timeout=60)
    assert (results, user_data) == ([], "wrong") and "x[2,64]" in error
    with pytest.raises(ort.UsageError, match="missing: x"):
        session.run_async(None, {}, callback, None)


def test_a_run_that_fails_in_any_way_is_told_of(dense_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*what: Any) -> None:
        raise ValueError("odd")
    session = ort.InferenceSession(dense_path)
    monkeypatch.setattr(session, "run", fails)
    told: queue.Queue[Any] = queue.Queue()
    session.run_async(None, {"x": random(1, 64)}, lambda *what: told.put(what), 7)
    assert told.get(timeout=60) == ([], 7, "odd")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_callback_that_raises_is_told_of(dense_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = ort.InferenceSession(dense_path)
    told: queue.Queue[Any] = queue.Queue()
    monkeypatch.setattr(threading, "excepthook", told.put)

    def callback(results: list[Any], user_data: Any, error: str) -> None:
        raise ZeroDivisionError("mine")
    session.run_async(None, {"x": random(1, 64)}, callback, None)
    assert told.get(timeout=60).exc_type is ZeroDivisionError


def test_vectors_of_values(in_folder: Path) -> None:
    onnx.save(models.two_by_two(), "two.onnx")
    session = ort.InferenceSession("two.onnx")
    a, b, device = random(2, 3), 2 * random(2, 3), ort.OrtDevice.make("cpu", 0)
    feeds, fetches = ort.OrtValueVector(), ort.OrtValueVector()
    feeds.reserve(2)
    for array in (b, a):
        feeds.push_back(ort.OrtValue.ortvalue_from_numpy(array))
    names = ["greater", "sum"]
    session.run_with_ortvaluevector(ort.RunOptions(), ["b", "a"], feeds, names, fetches, [device, device])
    np.testing.assert_array_equal(fetches[0].numpy(), a > b)
    np.testing.assert_array_equal(fetches[1].numpy(), a + b)
    total = np.zeros((2, 3), np.float32)
    session.run_with_ortvaluevector(None, ["b", "a"], feeds, ["sum"], [ort.OrtValue(total)], [device])
    np.testing.assert_array_equal(total, a + b)
    with pytest.raises(ort.UsageError, match="1 devices for 2 fetch_names"):
        session.run_with_ortvaluevector(None, ["b", "a"], feeds, names, ort.OrtValueVector(), [device])
    with pytest.raises(ort.UsageError, match="'npu'; expected is 'cpu' or 'cuda'"):
        ort.OrtDevice.make("npu", 0)


def test_threads_and_optimisation(dense_path: str) -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("tilewright.target", "cpu:x86-64-v3")
    session = ort.InferenceSession(dense_path, sess_options=options)
    assert session._fixed is not None
    assert session._fixed.threads == 1 and session._fixed.target == "x86-64-v3"
    assert options.compile_options()["no-measure"] is True
    assert session.get_session_options() is options


def test_profiling(dense_path: str) -> None:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = "prof"
    session = ort.InferenceSession(dense_path, options)
    for _ in range(3):
        session.run(None, {"x": random(1, 64)})
    name = session.end_profiling()
    assert name.startswith("prof_")
    with open(name, encoding="utf-8") as file:
        events = json.load(file)
    assert {event["args"]["run"] for event in events} == {0, 1, 2}
    assert {(event["cat"], event["name"]) for event in events} == {
        ("Node", f"{event['args']['op_name']}_kernel_time") for event in events}
    assert ort.InferenceSession(dense_path).end_profiling() == ""


def test_io_binding(dense_path: str) -> None:
    session = ort.InferenceSession(dense_path)
    x, y = random(1, 64), np.zeros((1, 64), np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    assert binding.copy_outputs_to_cpu()[0] == expected(x)

    binding.bind_input(name="x", device_type="cpu", device_id=0, element_type=np.float32, shape=x.shape,
                       buffer_ptr=x.ctypes.data)
    binding.bind_output(name="y", device_type="cpu", device_id=0, element_type=np.float32, shape=y.shape,
                        buffer_ptr=y.ctypes.data)
    x += 1
    session.run_with_iobinding(binding)
    assert y == expected(x)
    x -= 3
    session.run_with_iobinding(binding)
    assert y == expected(x)
    binding.clear_binding_outputs()
    binding.bind_output("z")
    with pytest.raises(ort.UsageError, match="not an output: z; the model has: y"):
        session.run_with_iobinding(binding)


def test_ort_values(dense_path: str) -> None:
    session = ort.InferenceSession(dense_path)
    x = random(1, 64)
    value = ort.OrtValue.ortvalue_from_numpy(x)
    assert (value.shape(), value.data_type(), value.device_name(), value.is_tensor()) == (
        [1, 64], "tensor(float)", "cpu", True)
    (result,) = session.run_with_ort_values(["y"], {"x": value})
    assert result.numpy() == expected(x)
    assert session.run(None, {"x": value})[0] == expected(x)
    output = ort.OrtValue.ortvalue_from_shape_and_type([1, 64], np.float32, "cpu", 0)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_ortvalue_output("y", output)
    value.update_inplace(np.negative(x))  # the value shares the memory of x
    session.run_with_iobinding(binding)
    assert output.numpy() == expected(x) and x[0, 0] == -random(1, 64)[0, 0]
    assert binding.get_outputs()[0].data_ptr() == output.data_ptr()


@pytest.mark.parametrize("package", ["tilewright", "onnxruntime"])
def test_ort_values_share_memory_with_numpy(package: str) -> None:
    module = pytest.importorskip(package, reason=f"{package} is not installed")
    x = random(2, 3)
    value = module.OrtValue.ortvalue_from_numpy(x)
    x[0, 0] = 7
    assert value.numpy()[0, 0] == 7
    value.numpy()[1, 1] = 8
    assert x[1, 1] == 8 and value.data_ptr() == x.ctypes.data and value.element_type() == 1


def test_streaming_script(in_folder: Path) -> None:
    onnx.save(models.counter(), "counter.onnx")
    session = ort.InferenceSession("counter.onnx")
    before = np.zeros(2, np.float32)
    for step in range(1, 5):
        before, y = session.run(["total", "y"], {"x": np.array([1, 2], np.float32), "before": before})
    np.testing.assert_array_equal(before, [4, 8])
    np.testing.assert_array_equal(y, [-4, -8])


def test_lists_and_types(in_folder: Path) -> None:
    onnx.save(models.lookup(), "lookup.onnx")
    session = ort.InferenceSession("lookup.onnx")
    assert session.get_inputs()[0].type == "tensor(int64)"
    np.testing.assert_array_equal(session.run(None, {"index": [1, 0, 2]})[0], [[2, 3], [0, 1], [4, 5]])


def test_metadata(in_folder: Path) -> None:
    proto = models.model(list(models.dense().graph.node), list(models.dense().graph.input),
                         list(models.dense().graph.output), {"w": models.weights(64, 64)}, author="somebody")
    proto.model_version = 7
    onnx.save(proto, "m.onnx")
    meta = ort.InferenceSession("m.onnx").get_modelmeta()
    assert (meta.producer_name, meta.graph_name, meta.version) == ("tests", "graph", 7)
    assert meta.custom_metadata_map == {"author": "somebody"}


def test_providers(dense_path: str) -> None:
    assert ort.get_available_providers()[-1] == "CPUExecutionProvider" and ort.get_device() in ("CPU", "GPU")
    with pytest.warns(ort.FallbackWarning, match="'FooExecutionProvider' is not available"):
        providers = [("FooExecutionProvider", {"a": 1}), "CPUExecutionProvider"]
        session = ort.InferenceSession(dense_path, providers=providers)
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session.get_provider_options() == {"CPUExecutionProvider": {}}


def test_errors(dense_path: str) -> None:
    session = ort.InferenceSession(dense_path)
    x = random(1, 64)
    unknown = r"not an input: z; the model takes: x tensor\(float\)\[1, 64\]"
    for feeds, text in (({"z": x}, unknown), ({}, "missing: x")):
        with pytest.raises(ort.UsageError, match=text):
            session.run(None, feeds)
    with pytest.raises(ort.UsageError, match="not an output: q; the model has: y"):
        session.run(["q"], {"x": x})
    with pytest.raises(ort.UsageError, match="f64"):
        session.run(None, {"x": x.astype(np.float64)})
    with pytest.raises(ort.UsageError, match="no argument 'foo'"):
        ort.InferenceSession(dense_path, foo=3)
    with pytest.raises(FileNotFoundError):
        ort.InferenceSession("nowhere.onnx")


def test_threads_share_a_session(open_path: str) -> None:
    session = ort.InferenceSession(open_path)
    wrong: list[int] = []

    def work(batch: int) -> None:
        x = random(batch, 64)
        for _ in range(20):
            if session.run(None, {"x": x})[0] != expected(x):
                wrong.append(batch)
    threads = [threading.Thread(target=work, args=(1 + i % 3,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(session._models.made) == 3


def test_the_second_process_finds_the_artefact(open_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", os.path.abspath("cache"))
    x = random(2, 64)
    for cached in (False, True):
        session = ort.InferenceSession(open_path)
        session.run(None, {"x": x})
        (model,) = session._models.made.values()
        assert model.compilation is not None and model.compilation["cached"] is cached
