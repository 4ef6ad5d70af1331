"""Arrays and streams on an NVIDIA GPU, by torch and cupy; not run where there is no GPU."""
from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
import tilewright as tw
from tilewright import _devices

pytestmark = pytest.mark.skipif(_devices.cuda_target() is None, reason="there is no GPU with code of ours")
torch = pytest.importorskip("torch", reason="torch is not installed")
SIZE, BATCH = 1024, 256


@pytest.fixture(scope="module")
def product() -> tw.Model:
    return tw.compile(models.dense(size=SIZE, batch=BATCH), target="cuda")


def close(got: Any, want: Any) -> None:
    # f32 products of this size; tf32 where torch rounds to it.
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-2, atol=2e-1)


def test_tensors_of_the_gpu_are_taken_and_given_in_place(product: tw.Model) -> None:
    x = torch.randn(BATCH, SIZE, device="cuda")
    out = torch.zeros(BATCH, SIZE, device="cuda")
    before = torch.cuda.memory_allocated()
    with warnings.catch_warnings():
        warnings.simplefilter("error", tw.CopyWarning)
        binding = product.bind_named({"x": x}, {"y": out})
        binding.run()
        binding.synchronize()
    assert torch.cuda.memory_allocated() == before and binding.outputs["y"].data_ptr() == out.data_ptr()
    close(out.cpu(), models.dense_expected(x.cpu().numpy(), SIZE))
    x.mul_(-1)  # the bound tensor itself is what the next run reads
    binding.run()
    binding.synchronize()
    close(out.cpu(), models.dense_expected(x.cpu().numpy(), SIZE))
    y = product(x)
    assert y.is_cuda and torch.equal(y, out)


def test_runs_of_two_streams_of_torch(product: tw.Model) -> None:
    seeds = [torch.randn(BATCH, SIZE, device="cuda") for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in seeds]
    torch.cuda.synchronize()
    results: list[list[Any]] = [[], []]
    for _ in range(5):
        for which, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                x = seeds[which].clone()
                for _ in range(30):  # work of this stream that a run on another one would overtake
                    x = x + 0.01
                results[which].append((product(x), x))
    torch.cuda.synchronize()
    for each in results:
        for y, x in each:
            close(y.cpu(), models.dense_expected(x.cpu().numpy(), SIZE))


def test_a_run_follows_the_current_stream_of_cupy(product: tw.Model) -> None:
    cupy = pytest.importorskip("cupy", reason="cupy is not installed")
    seed = cupy.random.standard_normal((BATCH, SIZE), dtype=cupy.float32)
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        x = seed.copy()
        for _ in range(50):
            x = x + cupy.float32(0.01)
        y = product(x)
        stream.synchronize()
    assert isinstance(y, cupy.ndarray)
    close(cupy.asnumpy(y), models.dense_expected(cupy.asnumpy(x), SIZE))


@pytest.mark.skipif(not all(__import__("importlib").util.find_spec(name) for name in ("onnx", "onnxscript")),
                    reason="torch.onnx needs the package onnxscript")
def test_torch_compile_on_the_gpu() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
                              torch.nn.Linear(16 * 8 * 8, 10)).eval().cuda()
    compiled = torch.compile(net, backend="tilewright", options={"fallback": False})
    with torch.inference_mode():
        for _ in range(3):
            x = torch.randn(4, 3, 8, 8, device="cuda")
            y = compiled(x)
            assert y.is_cuda
            torch.testing.assert_close(y, net(x), rtol=1e-2, atol=1e-2)


def test_values_move_between_devices(in_folder: Path) -> None:
    on_host = tw.OrtValue(np.arange(6, dtype=np.float32).reshape(2, 3))
    on_gpu = on_host.on(tw.OrtDevice.make("cuda", 0))
    assert on_gpu.device_name() == "cuda" and on_gpu.on(tw.OrtDevice.make("cuda", 0)) is on_gpu
    np.testing.assert_array_equal(on_gpu.on(tw.OrtDevice.make("cpu", 0)).numpy(), on_host.numpy())


def test_wrong_shapes_on_the_gpu_are_data(product: tw.Model) -> None:
    with pytest.raises(tw.ShapeError) as caught:
        product(torch.zeros(3, SIZE, device="cuda"))
    assert (caught.value.given, caught.value.compiled) == ({"x": (3, SIZE)}, [{"x": (BATCH, SIZE)}])


def test_explain_verify_and_report(product: tw.Model, in_folder: Path) -> None:
    (group,) = product.explain()["groups"]
    assert group
    checked = product.verify(models.dense(size=SIZE, batch=BATCH))
    assert checked.ok, checked
    report = product.report("gpu.html", duration=0.2)
    page = (in_folder / "gpu.html").read_text(encoding="utf-8")
    assert report.ok and product.target in page and len(page) < 4_000_000
