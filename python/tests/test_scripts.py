"""The scripts of examples/onnxruntime, as their authors wrote them: two lines change, and the numbers stay."""
from __future__ import annotations

import importlib.util
import types
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import script_models
import tilewright as tw

SCRIPTS = Path(__file__).resolve().parents[2] / "examples" / "onnxruntime"
THEIRS, OURS = "import onnxruntime as ort", "import tilewright as ort"


def run(name: str, switched: bool, model: str) -> list[np.ndarray[Any, Any]]:
    """What main() of the script returns, with its two import lines as they are or the other way round."""
    lines = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8").splitlines()
    if switched:
        lines[lines.index(THEIRS)], lines[lines.index(f"# {OURS}")] = f"# {THEIRS}", OURS
    module = types.ModuleType(name)
    exec(compile("\n".join(lines), f"{name}.py", "exec"), module.__dict__)
    results: list[np.ndarray[Any, Any]] = module.main(model)
    return results


def test_every_script_has_a_model_and_is_short() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.py")} == set(script_models.MODELS)
    for path in SCRIPTS.glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) < 50, path


@pytest.mark.filterwarnings("error::tilewright.FallbackWarning", "ignore::tilewright.CopyWarning")
@pytest.mark.parametrize("name", sorted(script_models.MODELS))
def test_script(name: str, in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(script_models.MODELS[name](), "model.onnx")
    compiled: dict[bytes, tw.Model] = {}
    load = tw.Artefact.load

    def remember(artefact: tw.Artefact, *args: Any, **named: Any) -> tw.Model:
        return compiled.setdefault(artefact.content, load(artefact, *args, **named))
    monkeypatch.setattr(tw.Artefact, "load", remember)
    results = run(name, True, "model.onnx")
    assert compiled and results
    for model in compiled.values():  # against the reference in f64
        checked = model.verify("model.onnx")
        assert checked.ok, checked
    if importlib.util.find_spec("onnxruntime") is None:
        return
    for ours, theirs in zip(results, run(name, False, "model.onnx"), strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        tolerance = 2e-3 if ours.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
