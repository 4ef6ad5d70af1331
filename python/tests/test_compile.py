"""tilewright.compile and its options."""
from __future__ import annotations

import os
import signal
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


@pytest.mark.parametrize("given", ["text", "path", "bytes", "proto"])
def test_takes_models_of_all_kinds(in_folder: Path, given: str) -> None:
    proto = models.dense()
    onnx.save(proto, "m.onnx")
    source = {"text": "m.onnx", "path": in_folder / "m.onnx", "bytes": proto.SerializeToString(), "proto": proto}[given]
    model = tw.compile(source, threads=1)
    x = random(1, 64)
    np.testing.assert_allclose(model(x), models.dense_expected(x), rtol=1e-5, atol=1e-5)
    assert model.compilation is not None and model.compilation["groups"] == 1 and model.compilation["complete"]
    assert model.compilation["target"].startswith("cpu:") and model.plan
    model.save("m.tw")
    np.testing.assert_array_equal(tw.load("m.tw")(x), model(x))


def test_shapes_and_dims() -> None:
    by_shape = tw.compile(models.dense(batch="n"), shapes={"x": (5, 64)})
    assert by_shape.inputs["x"].shape == (5, 64)
    several = tw.compile(models.dense(batch="n"), shapes={"x": [(5, 64), (2, 64)]})
    assert [entry.inputs["x"].shape for entry in several.entries] == [(5, 64), (2, 64)]
    assert tw.compile(models.dense(batch="n"), dims={"n": 7}).inputs["x"].shape == (7, 64)
    with pytest.raises(tw.ModelError, match="n=1"):
        tw.compile(models.dense(batch="n"))


@pytest.mark.parametrize("sizes", [range(1, 13), "1..12"])
def test_every_size_of_a_range(sizes: Any) -> None:
    model = tw.compile(models.dense(batch="n"), dims={"n": sizes}, measure=False)
    assert [entry.name for entry in model.entries] == ["x:9..12x64", "x:1..8x64"]
    for n in (1, 7, 8, 9, 12, 13, 31):  # of more than 12 rows part by part
        x = random(n, 64)
        np.testing.assert_allclose(model(x), models.dense_expected(x), rtol=1e-5, atol=1e-5)
        binding = model.bind(x)
        binding.run()
        np.testing.assert_array_equal(binding.outputs["y"], model(x))
    with pytest.raises(tw.ShapeError, match="9..12"):
        model(random(5, 32))


def test_rows_whose_number_comes_out_of_a_run() -> None:
    onnx = pytest.importorskip("onnx")
    graph = onnx.parser.parse_graph("counted (float[5,7] x) => (int64[2,n] at) { at = NonZero(x) }")
    artefact = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model = tw.compile(artefact, measure=False)
    x = random(5, 7)
    x[x < 0.2] = 0
    at, count = model(x)
    np.testing.assert_array_equal(at[:, :count[0]], np.nonzero(x))


def test_a_shape_that_contradicts_the_model() -> None:
    with pytest.raises(tw.ModelError) as caught:
        tw.compile(models.dense(batch="n"), shapes={"x": (5, 32)})
    assert caught.value.given == {"x": (5, 32)} and caught.value.declared == {"x": ("n", 64)}
    with pytest.raises(tw.ModelError) as caught:
        tw.compile(models.dense(batch="n"), dims={"m": 5})
    assert caught.value.given == {} and caught.value.declared == {}


def test_an_error_of_a_node_names_it() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    proto = models.model([node], [models.value("x", [2, 3])], [models.value("y", [2, 4])], {"w": models.weights(5, 4)})
    with pytest.raises(tw.ModelError) as caught:
        tw.compile(proto)
    assert caught.value.node == "product" and "product" in str(caught.value)


def test_constants() -> None:
    model = tw.compile(models.two_by_two(), constants={"b": np.full((2, 3), 2, np.float32)})
    assert list(model.inputs) == ["a"]
    np.testing.assert_array_equal(model(np.ones((2, 3), np.float32))[0], np.full((2, 3), 3))


def test_options_by_name() -> None:
    plain = tw.compile_artefact(models.dense(), target="cpu:x86-64-v3")
    assert plain.report["target"] == "cpu:x86-64-v3"
    half = tw.compile_artefact(models.dense(), target="cpu:x86-64-v3", dtype="float16")
    assert half.content != plain.content
    left_out = tw.compile_artefact(models.dense(), disable_pass=["fuse"], no_optional_passes=False, measure=False)
    assert left_out.report["groups"] == 2
    replayed = tw.compile_artefact(models.dense(), target="cpu:x86-64-v3", plan=plain.plan)
    assert replayed.content == plain.content


@pytest.mark.parametrize("options, text", [
    ({"taget": "cpu"}, "there is no option 'taget'; did you mean 'target'?"),
    ({"bugdet": 3}, "did you mean 'budget'?"), ({"zzzzzz": 3}, "there is no option 'zzzzzz'"),
    ({"target": "cpu:z80"}, "cpu:z80"), ({"precision": "sloppy"}, "sloppy"), ({"dtype": "f8"}, "f8"),
])
def test_wrong_options(options: dict[str, Any], text: str) -> None:
    with pytest.raises(tw.UsageError) as caught:
        tw.compile(models.dense(), **options)
    assert text in str(caught.value)


def test_wrong_models(in_folder: Path) -> None:
    with pytest.raises(tw.UsageError, match="is of type int; expected is a path"):
        tw.compile(3)
    with pytest.raises(tw.ModelError):
        tw.compile(models.dense().SerializeToString()[:100])
    with pytest.raises(tw.Error, match="nowhere.onnx"):
        tw.compile("nowhere.onnx")


def test_unsupported_operators_are_listed() -> None:
    nodes = [helper.make_node("Frobnicate", ["x"], ["a"], domain="com.example"), helper.make_node("Foo", ["a"], ["b"]),
             helper.make_node("Foo", ["b"], ["y"])]
    proto = models.model(nodes, [models.value("x", [2])], [models.value("y", [2])])
    proto.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(tw.UnsupportedError) as caught:
        tw.compile(proto)
    assert caught.value.operators == ["Foo", "com.example::Frobnicate"]
    assert caught.value.exit_code == 3 and isinstance(caught.value, tw.ModelError)
    assert {item["operator"]: len(item["nodes"]) for item in caught.value.items} == {"Foo": 2, "Frobnicate": 1}


def test_progress() -> None:
    seen: list[tuple[str, int, int]] = []
    tw.compile(models.convolutions(2), progress=lambda phase, done, total, detail: seen.append((phase, done, total)))
    phases = list(dict.fromkeys(phase for phase, _, _ in seen))
    assert set(phases) <= {"import", "transform", "measure", "lower", "code", "assemble"} and phases
    assert all(0 <= done <= total for _, done, total in seen)


def test_progress_may_raise() -> None:
    def fail(phase: str, done: int, total: int, detail: str) -> None:
        raise ZeroDivisionError(phase)
    with pytest.raises(ZeroDivisionError):
        tw.compile(models.convolutions(2), progress=fail)


def test_artefact_for_another_machine(in_folder: Path) -> None:
    artefact = tw.compile_artefact(models.dense(), target="cpu:x86-64-v2")
    artefact.save("old.tw")
    assert (in_folder / "old.tw").read_bytes() == artefact.content
    assert artefact.load().target == "x86-64-v2"
    assert {"cpu:x86-64-v2", "cuda:sm_90a"} <= set(tw.target_names())


def test_refit() -> None:
    artefact = tw.compile_artefact(models.dense())
    other = models.weights(64, 64, seed=9)
    x = random(1, 64)
    y = tw.refit(artefact, {"w": other}).load()(x)
    np.testing.assert_allclose(y, np.maximum(x.astype(np.float64) @ other, 0), rtol=1e-5, atol=1e-5)
    with pytest.raises(tw.UsageError, match="'w'"):
        tw.refit(artefact, {"v": other})


PROGRAM = """
    import signal, sys, time
    import tilewright as tw
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is started without it
    said = set()
    def progress(phase, done, total, detail):
        if phase in said: return
        said.add(phase)
        print(phase, flush=True)
        if phase == sys.argv[1]: time.sleep(5)  # for the signal
    model = tw.compile("m.onnx", progress=progress)
    print("complete", model.compilation["complete"], flush=True)
"""


def interrupted_in(phase: str, folder: Path) -> tuple[int, str, str]:
    """Exit status, output and errors of a program that compiles, and gets Ctrl-C in that phase."""
    onnx.save(models.convolutions(6), folder / "m.onnx")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TILEWRIGHT_")}
    environment |= {"TILEWRIGHT_CACHE_DIR": str(folder / "cache"), "TILEWRIGHT_DB": str(folder / "db")}
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM), phase], cwd=folder, env=environment,
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == phase:
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate(timeout=100)
    return process.returncode, out, err


def test_ctrl_c_while_measuring_keeps_the_best(tmp_path: Path) -> None:
    status, out, err = interrupted_in("measure", tmp_path)
    assert (status, out.splitlines()[-1:]) == (0, ["complete False"]), err


def test_ctrl_c_elsewhere_interrupts(tmp_path: Path) -> None:
    status, out, err = interrupted_in("import", tmp_path)
    assert status == -signal.SIGINT and "KeyboardInterrupt" in err and "complete" not in out


def test_the_command_comes_with_the_package() -> None:
    command = Path(sys.executable).parent / "tilewright"
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert tw.__version__ in done.stdout


def test_libraries_of_other_packages_are_offered(tmp_path: Path) -> None:
    """What torch brings for NVIDIA's GPUs lies where the system does not look; a folder that is named goes first."""
    for package, library in (("cu13", "libcublasLt.so.13"), ("cudnn", "libcudnn.so.9"), ("nccl", "libnccl.so.2")):
        (tmp_path / "nvidia" / package / "lib").mkdir(parents=True)
        (tmp_path / "nvidia" / package / "lib" / library).touch()
    asked = "import os, sys; sys.path.insert(0, sys.argv[1]); import tilewright; print(os.environ['TILEWRIGHT_LIBRARY_PATH'])"

    def offered(**environment: str) -> str:
        kept = {name: value for name, value in os.environ.items() if name != "TILEWRIGHT_LIBRARY_PATH"}
        return subprocess.run([sys.executable, "-c", asked, str(tmp_path)], env={**kept, **environment}, check=True, capture_output=True,
                              text=True).stdout.strip()

    folders = offered().split(":")
    for package in ("cu13", "cudnn"):
        assert str(tmp_path / "nvidia" / package / "lib") in folders
    assert not any("nccl" in folder for folder in folders)
    assert offered(TILEWRIGHT_LIBRARY_PATH="/mine") == "/mine"
