"""Model.explain, .verify, .report and .metadata: what the command says, in this process."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import numpy as np
import onnx
import pytest
import script_models
import tilewright as tw

COMMAND = os.path.join(sysconfig.get_path("scripts"), "tilewright")


def command(*words: str) -> Any:
    return json.loads(subprocess.run([COMMAND, *words, "--json"], check=True, capture_output=True, text=True).stdout)


def without_times(value: Any) -> Any:
    """The same document, without what each run measures anew, and without the file's name."""
    measured = ("run_us", "mue_percent", "fma_peak_percent", "padding_share", "model")
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in measured}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def test_explain_is_what_the_command_prints(dense: tw.Model, in_folder: Path,
                                            capfd: pytest.CaptureFixture[str]) -> None:
    dense.save("dense.tw")
    for model in (dense, tw.load("dense.tw", threads=1)):
        document = model.explain(why=True)
        assert without_times(document) == without_times(command("explain", "dense.tw", "--why", "--threads", "1"))
        assert document["groups"][0]["run_us"] > 0 and document["edges"] and document["threads"] == 1
    assert "edges" not in dense.explain()
    assert dense.explain(run=False)["groups"][0]["run_us"] is None
    assert dense.explain(group="no such group")["groups"] == []
    assert capfd.readouterr() == ("", "")


def test_verify_against_the_artefact_and_its_source(dense: tw.Model, in_folder: Path,
                                                    capfd: pytest.CaptureFixture[str]) -> None:
    checked = dense.verify()
    assert checked.ok and bool(checked) and checked.document["reference"] == "artefact"
    assert any(line.startswith("ok ") and "y: 0 of 64 elements wrong" in line for line in checked.lines)
    onnx.save(models.dense(), "dense.onnx")
    seen: list[str] = []
    for source in ("dense.onnx", Path("dense.onnx"), models.dense(), models.dense().SerializeToString()):
        checked = dense.verify(source, progress=lambda phase, *_: seen.append(phase))
        assert checked.ok and checked.document["reference"] == "source"
    assert set(seen) == {"verify"}
    assert capfd.readouterr() == ("", "")


def test_verify_finds_other_weights(dense: tw.Model) -> None:
    other = models.dense()
    other.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(models.weights(64, 64, seed=5), "w"))
    checked = dense.verify(other)
    assert not checked.ok and not checked
    assert any(line.startswith("MISMATCH y:") for line in checked.lines), str(checked)
    assert not checked.document["ok"] and checked.document["entries"][0]["outputs"][0]["wrong"] > 0


def test_verify_refuses_another_model(dense: tw.Model) -> None:
    with pytest.raises(tw.UsageError, match="inputs and outputs are not those of"):
        dense.verify(models.dense(size=32))
    with pytest.raises(tw.UsageError, match="nowhere.onnx"):
        dense.verify("nowhere.onnx")
    with pytest.raises(tw.UsageError, match="expected is a path, bytes, or an onnx.ModelProto"):
        dense.verify(3)
    with pytest.raises(tw.UsageError, match="no such entry|there is no entry|'q'"):
        dense.verify(entry="q")


def test_verify_of_entries_states_and_types(artefacts: Callable[..., tw.Artefact]) -> None:
    several = tw.compile(models.dense(batch="n"), dims={"n": [1, 3]}, dtype="bf16")
    checked = several.verify(models.dense(batch="n"))
    assert checked.ok and len(checked.document["entries"]) == 2
    counter = tw.compile(models.counter(), state={"before": "total"})
    before = counter.run_named({"x": np.ones(2, np.float32)})
    assert counter.verify(models.counter()).ok
    np.testing.assert_array_equal(counter.run_named({"x": np.ones(2, np.float32)})["y"], before["y"] * 2)


def test_ctrl_c_ends_a_verification(dense: tw.Model) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        dense.verify(progress=interrupt)
    assert dense.verify().ok


def test_report(dense: tw.Model, in_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report = dense.report("r.html", duration=0.05, trace="trace.json")
    page = Path("r.html").read_text(encoding="utf-8")
    assert report.ok and report.path == "r.html" and report.document["output"] == "r.html"
    assert report.document["bytes"] == len(page.encode())
    assert Path("trace.json").exists()
    assert report._repr_html_().startswith('<iframe srcdoc="') and "<html" not in report._repr_html_()
    faster = tw.compile(models.dense(), disable_pass=["fuse"])
    compared = faster.report("c.html", compare=dense, duration=0.05, verify=False).document["report"]
    assert compared["compared"] is not None
    assert dense.report("n.html", run=False).document["report"]["threads"] == 1
    with pytest.raises(tw.UsageError, match="other names, types or shapes"):
        dense.report("d.html", compare=tw.compile(models.two_by_two()))
    assert capfd.readouterr() == ("", "")


def test_metadata_is_in_the_artefact(in_folder: Path) -> None:
    model = tw.compile(script_models.described())
    model.save("m.tw")
    for loaded in (model, tw.load("m.tw")):
        assert loaded.metadata == tw.ModelMetadata(
            producer_name="maker", graph_name="graph", domain="com.example", description="a detector",
            graph_description="two layers", version=3,
            custom_metadata_map={"names": "{0: 'cat', 1: 'dog'}", "scale": "0.5"})
    onnx.save(script_models.described(), "m.onnx")
    assert tw.InferenceSession("m.tw").get_modelmeta() == tw.InferenceSession("m.onnx").get_modelmeta()
    kept = tw.refit("m.tw", {"w": models.weights(64, 64, seed=2)})
    assert kept.load().metadata == model.metadata


@pytest.mark.skipif(shutil.which(COMMAND) is None, reason="the command is not installed beside the interpreter")
def test_the_command_takes_the_source(dense: tw.Model, in_folder: Path) -> None:
    dense.save("dense.tw")
    onnx.save(models.dense(), "dense.onnx")
    assert command("verify", "dense.tw", "--source", "dense.onnx")["reference"] == "source"
    failed = subprocess.run([COMMAND, "verify", "dense.onnx", "--source", "dense.onnx"], capture_output=True, text=True)
    assert failed.returncode == 2 and "--source is for artefacts" in failed.stderr
