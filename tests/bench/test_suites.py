"""bench/suites and scripts/models/operators.py: seeded, within their limits, models that compute what they say."""
import importlib.util
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "scripts")]
from models import operators as models  # noqa: E402
from models import convnets, transformers  # noqa: E402
from suites import alt9, conv_gradients, networks, operators, roller119, torchvision_models  # noqa: E402
from suites.case import Options, flop, make_operators  # noqa: E402

SMALL = [
    {"name": "conv", "op": "conv", "batch": 2, "cin": 4, "cout": 6, "in": [7, 5], "kernel": [3, 3], "stride": [2, 1],
     "group": 2, "bias": True, "activation": "Relu"},
    {"name": "dilated", "op": "conv", "batch": 1, "cin": 2, "cout": 3, "in": [9, 9], "kernel": [3, 3],
     "dilation": [2, 2]},
    {"name": "row", "op": "conv", "batch": 1, "cin": 3, "cout": 3, "in": [8], "kernel": [3], "repeat": 3},
    {"name": "transposed", "op": "conv", "batch": 1, "cin": 3, "cout": 2, "in": [4, 4], "kernel": [4, 4],
     "stride": [2, 2], "pad": [1, 1], "transposed": True},
    {"name": "matmul", "op": "matmul", "shape": [3, 4, 5], "n": 6},
    {"name": "batch_matmul", "op": "batch_matmul", "shape": [3, 4, 5], "n": 6},
    {"name": "sqrt", "op": "elementwise", "kind": "Sqrt", "shape": [3, 4]},
    {"name": "add", "op": "elementwise", "kind": "Add", "shape": [3, 4]},
    {"name": "pool", "op": "pool", "kind": "MaxPool", "shape": [1, 2, 7, 7], "kernel": [3, 3], "stride": [2, 2],
     "pad": [1, 1]},
    {"name": "sum", "op": "reduce", "kind": "ReduceSum", "shape": [2, 3, 4], "axes": [-1]},
    {"name": "mean", "op": "reduce", "kind": "ReduceMean", "shape": [2, 3, 4], "axes": [1, 2]},
    {"name": "softmax", "op": "reduce", "kind": "Softmax", "shape": [2, 3, 4], "axes": [-1]},
    {"name": "transpose", "op": "transpose", "shape": [2, 3, 4], "perm": [2, 0, 1]},
    {"name": "gather", "op": "gather", "shape": [5, 3], "count": 7},
    {"name": "concat", "op": "concat", "shapes": [[2, 3, 4], [2, 1, 4]], "axis": 1},
    {"name": "resize", "op": "resize", "kind": "linear", "shape": [1, 2, 3, 4], "scales": [2.0, 1.5]},
    {"name": "norm", "op": "reduce", "kind": "LayerNormalization", "shape": [2, 3, 4], "axes": [-1]},
    {"name": "of_data", "op": "conv_gradient", "of": "data", "batch": 2, "cin": 3, "cout": 4, "in": [8, 5],
     "kernel": [3, 1], "stride": [2, 2]},
    {"name": "of_weights", "op": "conv_gradient", "of": "weights", "batch": 2, "cin": 3, "cout": 4, "in": [8, 5],
     "kernel": [3, 1], "stride": [2, 2]}]
# Kernel, stride, dilation, side: windows that end at the last pixel, before it, and behind it.
GRADIENTS = [(3, 2, 1, 8), (1, 2, 1, 8), (7, 2, 1, 16), (3, 1, 1, 7), (3, 2, 1, 9), (3, 1, 2, 9)]


def conv_gradient(spec, feeds):
    """By the definition: each pixel of dy, each position of the filter."""
    stride, pad, dilation, out = models.geometry(spec)
    (height, width), (rows, columns) = spec["in"], spec["kernel"]
    given = {name: array.astype(np.float64) for name, array in feeds.items()}
    x = np.zeros((spec["batch"], height + 2 * pad[0] + stride[0], width + 2 * pad[1] + stride[1], spec["cin"]))
    inside = x[:, pad[0]:pad[0] + height, pad[1]:pad[1] + width]
    dw = np.zeros((spec["cout"], rows, columns, spec["cin"]))
    if spec["of"] == "weights":
        inside[...] = given["x"]
    for a, c, i, j in np.ndindex(rows, columns, *out):
        at, dy = (i * stride[0] + a * dilation[0], j * stride[1] + c * dilation[1]), given["dy"][:, i, j]
        if spec["of"] == "weights":
            dw[:, a, c] += dy.T @ x[:, at[0], at[1]]
        else:
            x[:, at[0], at[1]] += dy @ given["w"][:, a, c]
    return dw if spec["of"] == "weights" else inside


class Operators(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.options = Options(pathlib.Path(folder.name))

    def test_models_compute_and_have_the_declared_shapes(self):
        for case in make_operators(SMALL, lambda s: s["op"], self.options):
            model, feeds = onnx.load(case.model), dict(np.load(case.feeds))
            outputs = ReferenceEvaluator(model).run(None, feeds)
            declared = [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]
            self.assertEqual(list(outputs[0].shape), declared, case.name)
            self.assertTrue(np.isfinite(outputs[0]).all() and outputs[0].std() > 0, case.name)

    def test_flop(self):
        specs = {s["name"]: s for s in SMALL}
        self.assertEqual(flop(specs["conv"]), 2 * 2 * 6 * 2 * 9 * 4 * 5)
        self.assertEqual(flop(specs["transposed"]), 2 * 3 * 2 * 16 * 16)
        self.assertEqual(flop(specs["row"]), 3 * 2 * 3 * 3 * 3 * 8)
        self.assertEqual(flop(specs["batch_matmul"]), 2 * 3 * 4 * 5 * 6)
        self.assertEqual(flop(specs["softmax"]), 0)

    def test_gradients_of_convolutions(self):
        for kernel, stride, dilation, side in GRADIENTS:
            for of in ("data", "weights"):
                spec = {"name": f"{of}_{kernel}_{stride}", "op": "conv_gradient", "of": of, "batch": 2, "cin": 3, "cout": 4,
                        "in": [side] * 2, "kernel": [kernel] * 2, "stride": [stride] * 2, "dilation": [dilation] * 2}
                built = models.build(spec, 0)
                found = ReferenceEvaluator(built.model()).run(None, built.feeds)[0]
                np.testing.assert_allclose(found, conv_gradient(spec, built.feeds), atol=1e-4, err_msg=str(spec))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "not run: no torch")
    def test_what_torch_computes_of_a_convolution_is_what_the_model_does(self):
        import torch
        for spec in conv_gradients.specs(is_small=True):
            built = models.build(dict(spec, **{"in": [8, 8]}), 0)
            module = conv_gradients.build({"operator": dict(spec, **{"in": [8, 8]})})
            found = module(*(torch.from_numpy(a) for a in built.feeds.values())).numpy()
            want = ReferenceEvaluator(built.model()).run(None, built.feeds)[0]
            np.testing.assert_allclose(found, want, atol=1e-2, rtol=1e-4, err_msg=spec["name"])

    def test_only_keeps_what_was_asked_for(self):
        self.options.only = ("pool",)
        self.assertEqual([c.name for c in make_operators(SMALL, lambda s: s["op"], self.options)], ["pool"])


class Suites(unittest.TestCase):
    def test_fixed_suites(self):
        self.assertEqual(len(operators.gemm10()), 10)
        layers = list(operators.depthwise())
        self.assertEqual(len(layers), len({s["name"] for s in layers}))
        self.assertTrue(any(s["cin"] == 960 and s["in"] == [7, 7] for s in layers))

    def test_networks_are_those_that_scripts_make(self):
        self.assertLessEqual(set(networks.GPU_NAMES), {*convnets.NETWORKS, *transformers.NETWORKS})
        self.assertEqual((len(set(networks.NAMES)), len(set(networks.GPU_NAMES))), (8, 10))
        with tempfile.TemporaryDirectory() as folder:
            options = Options(pathlib.Path(folder), only=("nothing",), on_gpu=True)
            self.assertEqual(networks.cases("networks", options), [])

    def test_alt9_is_nine_operators_ten_times_and_depends_on_the_seed(self):
        first, again, other = list(alt9.specs(0)), list(alt9.specs(0)), list(alt9.specs(1))
        self.assertEqual(len(first), 90)
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        for spec in first + other:
            self.assertTrue(alt9.MIN_FLOP <= flop(spec) <= alt9.MAX_FLOP, spec)
            if spec["op"] == "conv":
                self.assertTrue(all(side >= 1 for side in models.geometry(spec)[3]), spec)

    def test_roller_walk_reads_convolutions_without_attributes(self):
        node = onnx.helper.make_node("Conv", ["x", "w"], ["y"])
        family, spec = roller119.convolution(node, {}, {"x": [1, 8, 9, 9], "w": [4, 8, 3, 2]})
        self.assertEqual((family, spec["kernel"], spec["stride"], spec["pad"]), ("conv", [3, 2], [1, 1], [0, 0]))
        self.assertEqual(models.geometry(spec)[3], [7, 8])

    def test_roller_walk_finds_families_and_shrinks_batches(self):
        found = {family: [] for family in roller119.FAMILIES}
        spec = {"op": "conv", "batch": 16, "cin": 64, "cout": 64, "in": [224, 224], "kernel": [3, 3]}
        for _ in range(2):
            roller119.add(found, ("conv", spec))
        self.assertEqual(len(found["conv"]), 1)
        self.assertEqual(found["conv"][0]["batch"], 4)
        self.assertLessEqual(flop(found["conv"][0]), roller119.MAX_FLOP)
        self.assertGreaterEqual(sum(roller119.FAMILIES.values()), roller119.LEAST)


@unittest.skipUnless(importlib.util.find_spec("torchvision"), "not run: no torchvision")
class HeldOut(unittest.TestCase):
    def test_outputs_show_what_weights_and_images_are(self):
        """Neither zero, as behind a head that is, nor beyond 16-bit floats; the same at each call."""
        import torch
        for name in ("mobilenet_v3_small", "vit_b_32", "inception_v3"):
            side = torchvision_models.SIDES.get(name, 224)
            images = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(1))
            with torch.no_grad():
                first, again = (torchvision_models.build({"constructor": name, "seed": 0})(images) for _ in range(2))
            torch.testing.assert_close(first, again, rtol=1e-3, atol=1e-3)
            self.assertLess(float(first.abs().max()), 100, name)
            self.assertGreater(float(first.std(1).min()), 1e-3, name)
            self.assertGreater(float((first[0] - first[1]).abs().max()), 1e-3, name)


if __name__ == "__main__":
    unittest.main()
