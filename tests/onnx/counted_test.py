#!/usr/bin/env python3
"""counted_test.py TILEWRIGHT: operators whose number of rows comes out of a run, against onnxruntime.

Outputs that hold such rows are cut at what the output NAME_count says. Exit code 77 where onnx or onnxruntime is missing.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"not run: {error}")
    sys.exit(77)

RANDOM = np.random.default_rng(11)
INT64 = np.int64


def const(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


class Case:
    """`rows`: of each output that holds counted rows the dimension along which it does, and whose count it is."""

    def __init__(self, name, nodes, inputs, rows, constants=(), words=(), also=()):
        self.name, self.nodes, self.inputs, self.rows = name, nodes, inputs, rows
        self.constants, self.words, self.also = constants, words, also

    def save(self, path):
        inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                  for n, a in self.inputs.items()]
        outputs = [helper.make_value_info(n, onnx.TypeProto()) for n in [*self.rows, *self.also]]
        graph = helper.make_graph(self.nodes, "counted", inputs, outputs, list(self.constants))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        # onnxruntime wants the types of outputs.
        known = {v.name: v for v in onnx.shape_inference.infer_shapes(model).graph.output}
        for output in model.graph.output:
            output.CopyFrom(known[output.name])
        onnx.save(model, path)


def f32(*shape):
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def sparse(*shape, dtype=np.float32):
    return (RANDOM.integers(-2, 3, shape) * (RANDOM.random(shape) < 0.5)).astype(dtype)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, name=outputs[0] + "_node", **attributes)


def selections():
    for shape in [(9,), (5, 7), (2, 3, 4)]:
        for dtype in (np.float32, np.int32, bool):
            yield Case(f"non_zero {shape} {dtype.__name__}", [node("NonZero", ["x"], ["at"])],
                       {"x": sparse(*shape, dtype=dtype)}, {"at": (1, "at")})
    yield Case("non_zero of nothing", [node("NonZero", ["x"], ["at"])], {"x": np.zeros((3, 4), np.float32)}, {"at": (1, "at")})
    yield Case("non_zero of all", [node("NonZero", ["x"], ["at"])], {"x": np.ones((3, 4), np.float32)}, {"at": (1, "at")})
    yield Case("one element", [node("NonZero", ["x"], ["at"])], {"x": np.ones((1,), np.float32)}, {"at": (1, "at")})
    yield Case("special values", [node("NonZero", ["x"], ["at"])],
               {"x": np.array([0, -0.0, np.nan, np.inf, 1e-45, 0, 3], np.float32)}, {"at": (1, "at")})
    condition = np.array([True, False, True, True, False])
    for axis in (0, 1, -1):
        shape = [4, 4]
        shape[axis] = 6
        yield Case(f"compress {axis}", [node("Compress", ["x", "c"], ["y"], axis=axis)],
                   {"x": f32(*shape), "c": condition}, {"y": (axis % 2, "y")})
    yield Case("compress all", [node("Compress", ["x", "c"], ["y"])], {"x": f32(3, 4), "c": condition}, {"y": (0, "y")})
    for is_sorted in (0, 1):
        for kind, x in {"f32": sparse(4, 6), "i64": RANDOM.integers(-3, 9, 40)}.items():
            names = ["y", "first", "inverse", "counts"]
            yield Case(f"unique {kind} {is_sorted}", [node("Unique", ["x"], names, sorted=is_sorted)], {"x": x},
                       {n: (0, "y") for n in ("y", "first", "counts")}, also=["inverse"])


def boxes(batch, count, has_centers):
    corner, size = RANDOM.uniform(0, 3, (batch, count, 2)), RANDOM.uniform(0.2, 2, (batch, count, 2))
    parts = [corner, size] if has_centers else [corner, corner + size]
    all_boxes = np.concatenate(parts, 2).astype(np.float32)
    if not has_centers:
        all_boxes[:, ::3] = all_boxes[:, ::3][..., [2, 3, 0, 1]]  # corners the other way round
    return all_boxes


def suppressions():
    for batch, classes, count, most, iou, score, centers in [
            (1, 1, 6, 3, 0.5, 0.0, 0), (2, 3, 20, 5, 0.3, 0.2, 0), (1, 2, 30, 40, 0.6, None, 1), (2, 2, 9, 4, 0.0, 0.4, 1),
            (1, 1, 12, 12, 0.5, 2.0, 0)]:
        scores = RANDOM.uniform(-0.2, 1, (batch, classes, count)).astype(np.float32)
        scores[..., 1::4] = scores[..., :1]  # equal scores
        constants = [const("most", np.array([most], INT64)), const("iou", np.array([iou], np.float32))]
        words = ["b", "s", "most", "iou"]
        if score is not None:
            constants.append(const("score", np.array([score], np.float32)))
            words.append("score")
        inputs = {"b": boxes(batch, count, centers), "s": scores}
        suppress = node("NonMaxSuppression", words, ["chosen"], center_point_box=centers)
        yield Case(f"nms {batch} {classes} {count} {most} {iou} {score} {centers}", [suppress], inputs,
                   {"chosen": (0, "chosen")}, constants)
        constants += [const("two", np.array(2, INT64)), const("flat", np.array([-1, 4], INT64))]
        nodes = [suppress, node("Gather", ["chosen", "two"], ["places"], axis=1), node("Reshape", ["b", "flat"], ["all"]),
                 node("Gather", ["all", "places"], ["taken"], axis=0), node("Relu", ["taken"], ["positive"])]
        yield Case(f"boxes of nms {batch} {most}", nodes, inputs, {"positive": (0, "chosen")}, constants)


def reductions():
    """Rows that hold nothing must not be counted."""
    x, w = sparse(6, 5), f32(5, 3)
    pick = [node("NonZero", ["x"], ["at"]), node("Transpose", ["at"], ["pairs"], perm=[1, 0]),
            node("GatherND", ["x", "pairs"], ["numbers"])]
    yield Case("numbers", pick, {"x": x}, {"numbers": (0, "at")})
    for op, attributes in {"ReduceMean": {"axes": [0]}, "ReduceMax": {"axes": [0]}, "ReduceMin": {"axes": [0]}}.items():
        yield Case(op, [*pick, node(op, ["numbers"], ["y"], **attributes)], {"x": x}, {}, also=["y"])
    yield Case("softmax", [*pick, node("Softmax", ["numbers"], ["y"], axis=0)], {"x": x}, {"y": (0, "at")})
    rows = [node("Compress", ["x", "c"], ["kept"], axis=0), node("MatMul", ["kept", "w"], ["p"])]
    inputs = {"x": x, "c": np.array([True, False, True, False, False, True])}
    yield Case("products", rows, inputs, {"p": (0, "kept")}, [const("w", w)])
    yield Case("products of themselves", [*rows[:1], node("Transpose", ["kept"], ["turned"], perm=[1, 0]),
                                          node("MatMul", ["turned", "kept"], ["p"])], inputs, {}, also=["p"])
    yield Case("a bound", rows, inputs, {"p": (0, "kept")}, [const("w", w)], words=["--bound", "kept=4"])


def run(*words, code=0):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    assert done.returncode == code, f"exit code {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def check(tilewright, folder, case):
    path, artefact = folder / "m.onnx", folder / "m.tw"
    case.save(path)
    names = [*case.rows, *case.also]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = dict(zip(names, session.run(names, case.inputs)))
    said = run(tilewright, "compile", path, "--no-measure", "-o", artefact, *case.words)
    run(tilewright, "verify", path, "--no-measure", *case.words)
    words, counts = [], {f"{of}_count" for _, of in case.rows.values()}
    for name, array in case.inputs.items():
        np.save(folder / f"{name}.npy", array)
        words += ["--input", f"{name}=@{folder / name}.npy"]
    for name in [*names, *counts]:
        words += ["--output", f"{name}=@{folder / name}.npy"]
    run(tilewright, "run", artefact, *words)
    for name in names:
        got = np.load(folder / f"{name}.npy")
        if name in case.rows:
            axis, of = case.rows[name]
            count = np.load(folder / f"{of}_count.npy")
            assert count.shape == (1,) and count[0] == wanted[name].shape[axis], f"{case.name}: {count}"
            assert f"{of}_count" in said, said
            got = np.take(got, np.arange(count[0]), axis)
        np.testing.assert_allclose(got, wanted[name], rtol=1e-5, atol=1e-6, err_msg=f"{case.name}: {name}")


def refusals(tilewright, folder):
    x = np.ones((3, 4), np.float32)
    np.save(folder / "x.npy", x)
    few = Case("few", [node("NonZero", ["x"], ["at"])], {"x": x}, {"at": (1, "at")})
    few.save(folder / "m.onnx")
    run(tilewright, "compile", folder / "m.onnx", "--no-measure", "--bound", "at=5", "-o", folder / "m.tw")
    said = run(tilewright, "run", folder / "m.tw", "--input", f"x=@{folder / 'x.npy'}", code=2)
    assert "at_node" in said and "--bound" in said, said
    # What reads the last row of those that there are.
    last = [node("NonZero", ["x"], ["at"]), node("Gather", ["at", "end"], ["y"], axis=1)]
    Case("last", last, {"x": x}, {}, [const("end", np.array(-1, INT64))], also=["y"]).save(folder / "m.onnx")
    said = run(tilewright, "compile", folder / "m.onnx", "--no-measure", "-o", folder / "m.tw", code=3)
    assert "'at'" in said and "y_node" in said, said
    few.save(folder / "m.onnx")
    said = run(tilewright, "compile", folder / "m.onnx", "--bound", "to=4", "-o", folder / "m.tw", code=3)
    assert "it does of at" in said, said
    said = run(tilewright, "compile", folder / "m.onnx", "--bound", "at=1", "-o", folder / "m.tw", code=2)
    assert "at least 2" in said, said


def main():
    tilewright = sys.argv[1]
    cases = [*selections(), *suppressions(), *reductions()]
    with tempfile.TemporaryDirectory() as name:
        for case in cases:
            try:
                check(tilewright, pathlib.Path(name), case)
            except Exception as error:
                raise AssertionError(f"{case.name}: {error}") from error
        refusals(tilewright, pathlib.Path(name))
    print(f"{len(cases)} models")
    return 0


if __name__ == "__main__":
    sys.exit(main())
