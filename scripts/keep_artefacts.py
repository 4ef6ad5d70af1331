#!/usr/bin/env python3
"""Keeps artefacts of the present file format, for tests that later versions still read them (docs/reference/file-format.md).

  scripts/keep_artefacts.py --tilewright build/ci/tools/tilewright

Writes tests/data/kept/VERSION/NAME/: model.tw, one .npy for each input in `inputs`, and what a run gave in `outputs`. Run it
when the version of the format has changed, and commit what it wrote; it never writes over a folder that there is.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/cli"))
import onnx_bytes as ob  # noqa: E402

CPU = "cpu:x86-64"  # what every machine of the tests runs


def recurrence(turns=12, channels=2, hidden=3):
    """A GRU: a loop of one body."""
    gates = 3 * hidden
    w, r = ([(i * 37 % 19 - 9) / 16 for i in range(gates * n)] for n in (channels, hidden))
    tensors = [ob.tensor("w", [1, gates, channels], w), ob.tensor("r", [1, gates, hidden], r)]
    gru = ob.node("GRU", ["x", "w", "r"], ["y"], "GRU_0", [("hidden_size", hidden)])
    return ob.model([gru], [ob.value_info("x", [turns, 1, channels])], [ob.value_info("y", [turns, 1, 1, hidden])], tensors)


def total():
    nodes = [ob.node("Add", ["total", "x"], ["next"], "Add_0"), ob.node("Neg", ["next"], ["y"], "Neg_0")]
    vectors = {name: ob.value_info(name, [3]) for name in ("x", "total", "y", "next")}
    return ob.model(nodes, [vectors["x"], vectors["total"]], [vectors["y"], vectors["next"]])


def chosen():
    """The elements that are not 0: rows whose number comes out of the run."""
    nodes = [ob.node("NonZero", ["x"], ["y"], "NonZero_0")]
    return ob.model(nodes, [ob.value_info("x", [11])], [ob.value_info("y", [1, "n"], ob.I64)])


STATE = ["--state", "total=next"]
# Name, model, verb and options, inputs and their shapes, options of run, outputs that are compared.
ROWS = [
    ("dense", ob.dense(), ["compile", "--target", CPU], {"x": [4, 3]}, [], ["y"]),
    ("levels", ob.dense(), ["compile", "--target", f"{CPU},cpu:x86-64-v3"], {"x": [4, 3]}, [], ["y"]),
    ("range", ob.dense(batch="n"), ["compile", "--target", CPU, "--dim", "n=1..20"], {"x": [11, 3]}, [], ["y"]),
    ("loop", recurrence(), ["compile", "--target", CPU], {"x": [12, 1, 2]}, [], ["y"]),
    ("state", total(), ["compile", "--target", CPU, *STATE], {"x": [3]}, [], ["y", "total"]),
    ("image", ob.recurrent(16, 9), ["compile", "--target", CPU, "--state", "h=h.next"], {"x": [1, 16, 9, 9]}, [], ["y", "h"]),
    ("counted", chosen(), ["compile", "--target", CPU], {"x": [11]}, [], ["y", "y_count"]),
    ("cuda", ob.dense(m=128, k=128, n=128), ["compile", "--target", "cuda:sm_90a", "--libraries", "none"], {}, [], []),
]


def keep(tilewright, folder, row):
    name, model, (verb, *options), inputs, run, outputs = row
    place = folder / name
    for part in ("inputs", "outputs"):
        (place / part).mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        onnx = pathlib.Path(temporary) / "model.onnx"
        onnx.write_bytes(model)
        subprocess.run([tilewright, verb, onnx, "--no-measure", *options, "-o", place / "model.tw"], check=True)
    for tensor, shape in inputs.items():
        numpy.save(place / "inputs" / f"{tensor}.npy", (numpy.arange(numpy.prod(shape)) * 7 % 11 / 4 - 1).astype("f4").reshape(shape))
    if inputs:
        words = [word for tensor in inputs for word in ("--input", f"{tensor}=@{place}/inputs/{tensor}.npy")]
        words += [word for tensor in outputs for word in ("--output", f"{tensor}=@{place}/outputs/{tensor}.npy")]
        subprocess.run([tilewright, "run", place / "model.tw", *run, *words], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilewright", required=True, type=pathlib.Path)
    parser.add_argument("--only", nargs="*", default=[row[0] for row in ROWS])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        model = pathlib.Path(temporary) / "dense.onnx"
        model.write_bytes(ob.dense())
        subprocess.run([options.tilewright, "compile", model, "--no-measure", "-o", model.with_suffix(".tw")], check=True)
        version = int.from_bytes(model.with_suffix(".tw").read_bytes()[8:12], "little")
    for row in ROWS:
        if row[0] in options.only:
            keep(options.tilewright.absolute(), ROOT / "tests/data/kept" / str(version), row)


if __name__ == "__main__":
    main()
