#!/usr/bin/env python3
"""Artefacts for another architecture, run under an emulator and compared: the ONNX package's back-end tests with their
outputs, and models with what their code for this machine gives.

  emulated.py --tilewright CMD --run 'qemu-aarch64 -L ROOT run_models' --native run_models --nodes DATA [--every N]
  emulated.py --tilewright CMD --run .. --native run_models --models FOLDER         NAME.onnx beside NAME.npz

Prints `N passed, N failed`, and what failed. A model that the compiler refuses counts as neither.
"""
import argparse
import concurrent.futures
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

REFUSED = "unsupported"  # in place of an exit code
UNKNOWN = re.compile(r"--const (\S+)=@")  # of a refusal: an input that must be known when compiling
RELATIVE, ABSOLUTE = 1e-3, 1e-5  # as the back-end tests have it


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tilewright", required=True)
    p.add_argument("--run", required=True, help="the command that runs a list of artefacts on the other architecture")
    p.add_argument("--native", required=True, help="the same of this machine: gives what models are compared with")
    p.add_argument("--target", default="cpu:aarch64")
    p.add_argument("--nodes", type=pathlib.Path, help="the ONNX package's data folder")
    p.add_argument("--models", type=pathlib.Path)
    p.add_argument("--every", type=int, default=1, help="one of so many tests")
    p.add_argument("--jobs", type=int, default=2)
    return p.parse_args()


class Case:
    """A model with inputs and, of back-end tests, outputs."""

    def __init__(self, name, path, graph, feeds, wanted=None):
        self.name, self.path, self.feeds, self.wanted = name, path, feeds, wanted
        self.inputs, self.outputs = given(graph), list(graph.output)


def array_of(file, value):
    if value.type.WhichOneof("value") != "tensor_type":
        return None
    tensor = onnx.TensorProto.FromString(file.read_bytes())
    return None if tensor.data_type in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED) else numpy_helper.to_array(tensor)


def given(graph):
    constants = {t.name for t in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


def node_cases(data, every):
    for folder in sorted(data.glob("*/test_*"))[::every]:
        path, tests = folder / "model.onnx", folder / "test_data_set_0"
        if not path.exists() or not tests.exists():
            continue
        graph = onnx.load(path, load_external_data=False).graph
        feeds = [array_of(tests / f"input_{i}.pb", v) if (tests / f"input_{i}.pb").exists() else None for i, v in enumerate(given(graph))]
        wanted = [array_of(tests / f"output_{i}.pb", v) for i, v in enumerate(graph.output)]
        if all(a is not None and a.dtype.kind != "V" for a in feeds + wanted):
            yield Case(f"{folder.parent.name}/{folder.name}", path, graph, feeds, wanted)


def model_cases(folder, every):
    for path in sorted(folder.glob("*.onnx"))[::every]:
        if path.with_suffix(".npz").exists():
            feeds = np.load(path.with_suffix(".npz"))
            graph = onnx.load(path, load_external_data=False).graph
            yield Case(path.stem, path, graph, [feeds[v.name] for v in given(graph)])


def shapes_of(case):
    """Dims that the model leaves open, as given."""
    for value, array in zip(case.inputs, case.feeds):
        if any(not d.HasField("dim_value") for d in value.type.tensor_type.shape.dim):
            yield from ("--shape", f"{value.name}:{'x'.join(map(str, array.shape)) or 'scalar'}")


def compile_case(args, case, target, folder):
    """(exit code or REFUSED, last line of errors). Inputs that must be known are given as constants; the others become files."""
    folder.mkdir(parents=True)
    names = [v.name for v in case.inputs]
    constants = []
    for _ in range(6):
        command = [args.tilewright, "compile", case.path, "--target", target, "--no-measure", *shapes_of(case),
                   *(word for c in constants for word in ("--const", f"{c}=@{folder / 'const'}{names.index(c)}.npy")),
                   "-o", folder / "model.tw"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        unknown = [n for n in UNKNOWN.findall(done.stderr) if n in names and n not in constants]
        if done.returncode == 0 or not unknown:
            break
        for name in unknown:
            np.save(folder / f"const{names.index(name)}.npy", case.feeds[names.index(name)])
        constants += unknown
    for i, array in enumerate(a for n, a in zip(names, case.feeds) if n not in constants):
        (folder / f"in{i}").write_bytes(np.ascontiguousarray(array).tobytes())
    code = REFUSED if "tilewright: unsupported" in done.stderr else done.returncode
    return code, (done.stderr.strip().splitlines() or [""])[-1]


def run_list(command, folders, scratch, name):
    parts = [folders[i::2] for i in range(2)]
    def one(number, part):
        listed = scratch / f"{name}{number}.list"
        listed.write_text("".join(f"{f / 'model.tw'} {f}\n" for f in part))
        subprocess.run([*shlex.split(command), str(listed)], check=False, capture_output=True)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(one, range(2), parts))


def outputs_of(folder, like):
    if (folder / "error").exists():
        raise ValueError((folder / "error").read_text().strip())
    for i, array in enumerate(like):
        yield np.frombuffer((folder / f"out{i}").read_bytes(), array.dtype).reshape(array.shape)


def is_bounded(case, folder):
    """Whether an output has room for more than this run gives."""
    return any((folder / f"out{i}").exists() and (folder / f"out{i}").stat().st_size != a.nbytes for i, a in enumerate(case.wanted))


def difference(found, wanted):
    """Why two arrays are not alike; empty when they are."""
    if wanted.dtype.kind not in "fc" and wanted.dtype.name != "bfloat16":
        return "" if np.array_equal(found, wanted) else "other whole numbers"
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    relative = 1e-2 if wanted.dtype.itemsize == 2 else RELATIVE
    with np.errstate(invalid="ignore"):
        far = ~(np.isclose(a, b, relative, ABSOLUTE, equal_nan=True))
    return f"{far.sum()} of {far.size} differ, by up to {np.nanmax(np.abs(a - b)):.3g}" if far.any() else ""


def natively(args, cases, scratch):
    """Fills in what the code for this machine gives: of models, and of outputs that are as long as their bounds."""
    folders = []
    for case in cases:
        folder = scratch / "native" / case.name
        compile_case(args, case, "cpu:x86-64-v3", folder)
        folders.append(folder)
    run_list(args.native, folders, scratch, "native")
    for case, folder in zip(cases, folders):
        types = [helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type) for v in case.outputs]
        case.wanted = [np.frombuffer((folder / f"out{i}").read_bytes(), t) for i, t in enumerate(types)]


def main():
    args = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="tw-emulated-") as root:
        scratch = pathlib.Path(root)
        cases = list(node_cases(args.nodes, args.every) if args.nodes else model_cases(args.models, args.every))
        if args.models:
            natively(args, cases, scratch)
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            done = list(pool.map(lambda c: compile_case(args, c, args.target, scratch / "other" / c.name), cases))
        refused = [c.name for c, (code, _) in zip(cases, done) if code == REFUSED]
        failed = [(c.name, why) for c, (code, why) in zip(cases, done) if code not in (0, REFUSED)]
        ready = [c for c, (code, _) in zip(cases, done) if code == 0]
        other = {c.name: scratch / "other" / c.name for c in ready}
        run_list(args.run, list(other.values()), scratch, "other")
        if args.nodes:
            natively(args, [c for c in ready if is_bounded(c, other[c.name])], scratch)
        passed = 0
        for case in ready:
            try:
                found = list(outputs_of(other[case.name], case.wanted))
                why = next(filter(None, map(difference, found, case.wanted)), "")
            except (OSError, ValueError) as error:
                why = str(error)
            passed += not why
            failed += [(case.name, why)] if why else []
    for name, why in failed:
        print(f"failed {name}: {why}")
    print(f"{passed} passed, {len(failed)} failed; {len(refused)} refused by the compiler")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
