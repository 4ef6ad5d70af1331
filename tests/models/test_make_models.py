"""make_models.py: the same bytes for the same seed, checked models, batch norms that are not the identity."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/make_models.py"
NETWORKS = ["resnet18", "resnet50", "mobilenet_v2", "vgg16", "vgg19", "repvgg_a0", "repvgg_b0", "resnet3d_18",
            "bert_base", "tinybert", "bert_tiny"]
# torchvision's and torch's counts of weight-carrying operators, full size and small alike
CONVS = {"resnet18": 20, "resnet50": 53, "mobilenet_v2": 52, "vgg16": 13, "vgg19": 16, "repvgg_a0": 22,
         "repvgg_b0": 28, "resnet3d_18": 20}
PARAMETERS = {"resnet18": 11_689_512, "mobilenet_v2": 3_504_872, "bert_tiny": 4_369_408}  # full size


class MakeModels(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)

    def make(self, *arguments, folder="a"):
        done = subprocess.run([sys.executable, str(SCRIPT), str(self.out / folder), *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.out / folder

    @staticmethod
    def ops(path):
        return [n.op_type for n in onnx.load(path).graph.node]

    def test_small_networks_have_their_structure(self):
        folder = self.make("--small", "--only", *NETWORKS)
        for name in NETWORKS:
            ops = self.ops(folder / f"{name}_small.onnx")
            self.assertEqual(ops.count("Conv"), CONVS.get(name, 0), name)
            normed = name in ("resnet18", "resnet50", "mobilenet_v2", "resnet3d_18")
            self.assertEqual(ops.count("BatchNormalization"), CONVS[name] if normed else 0, name)
            if "bert" in name:
                self.assertEqual((ops.count("Softmax"), ops.count("Erf"), ops.count("LayerNormalization")), (2, 2, 0), name)
                self.assertEqual(ops.count("MatMul"), 2 * 8, name)

    def test_full_sizes(self):
        folder = self.make("--only", *PARAMETERS)
        for name, expected in PARAMETERS.items():
            weights = onnx.load(folder / f"{name}.onnx").graph.initializer
            count = sum(int(np.prod(w.dims)) for w in weights
                        if w.data_type == onnx.TensorProto.FLOAT and "running" not in w.name)
            self.assertEqual(count, expected, name)

    def test_bytes_depend_on_the_seed_alone(self):
        arguments = ["--small", "--only", "resnet18", "bert_tiny"]
        a, b = self.make(*arguments), self.make(*arguments, folder="b")
        c = self.make(*arguments, "--seed", "1", folder="c")
        for file in ("resnet18_small.onnx", "bert_tiny_small.onnx"):
            self.assertEqual((a / file).read_bytes(), (b / file).read_bytes())
            self.assertNotEqual((a / file).read_bytes(), (c / file).read_bytes())

    def test_weights_do_not_depend_on_batch_or_layer_norm_form(self):
        folder = self.make("--small", "--only", "bert_tiny")
        self.make("--small", "--only", "bert_tiny", "--batch", "3", "--layernorm", "fused")
        one, other = (onnx.load(folder / f).graph for f in ("bert_tiny_small.onnx", "bert_tiny_small_fused_b3.onnx"))
        self.assertEqual([n.op_type for n in other.node].count("LayerNormalization"), 5)
        self.assertEqual(other.input[0].type.tensor_type.shape.dim[0].dim_value, 3)
        self.assertEqual([w.raw_data for w in one.initializer], [w.raw_data for w in other.initializer])

    def test_batch_norms_are_not_the_identity(self):
        folder = self.make("--small", "--only", "resnet18")
        weights = {w.name: numpy_helper.to_array(w) for w in onnx.load(folder / "resnet18_small.onnx").graph.initializer}
        for suffix, neutral in (("running_mean", 0), ("running_var", 1), ("bn1.weight", 1), ("bn1.bias", 0)):
            chosen = [w for name, w in weights.items() if name.endswith(suffix)]
            self.assertTrue(chosen)
            for w in chosen:
                self.assertGreater(abs(w - neutral).max(), 0.01)
                self.assertGreater(np.unique(w).size, 1)

    def test_external_dynamic_and_inputs(self):
        folder = self.make("--small", "--only", "resnet18", "--external", "--inputs")
        self.assertLess((folder / "resnet18_small.onnx").stat().st_size, 100_000)
        self.assertGreater((folder / "resnet18_small.weights").stat().st_size, 500_000)
        with np.load(folder / "resnet18_small.npz") as feeds:
            self.assertEqual(feeds["input"].shape, (1, 3, 64, 64))
        self.make("--small", "--only", "bert_tiny", "--dynamic")
        graph = onnx.load(folder / "bert_tiny_small_dyn.onnx").graph
        self.assertEqual(graph.input[0].type.tensor_type.shape.dim[0].dim_param, "batch")
        self.assertIn("Shape", [n.op_type for n in graph.node])

    def test_kernels(self):
        folder = self.make("--only", "mlp", "--gemm", "5,7,3", "--conv", "3,4,9,3,2", "--mlp", "2,3,4")
        self.assertEqual(sorted(f.name for f in folder.glob("*.onnx")),
                         ["conv_3_4_9_3_2.onnx", "gemm_5_7_3.onnx", "gemm_5_7_3_ab.onnx", "mlp.onnx", "mlp_2_3_4.onnx"])
        self.assertEqual(self.ops(folder / "mlp.onnx"), ["MatMul", "Add", "Relu"])
        shape = lambda v: [d.dim_value for d in v.type.tensor_type.shape.dim]
        both = onnx.load(folder / "gemm_5_7_3_ab.onnx").graph
        self.assertEqual([shape(v) for v in [*both.input, *both.output]], [[5, 3], [3, 7], [5, 7]])
        self.assertEqual(shape(onnx.load(folder / "conv_3_4_9_3_2.onnx").graph.output[0]), [1, 4, 5, 5])

    def test_operators_of_two_inputs_also_have_one_value_as_both(self):
        folder = self.make("--only", "--operator-suite")
        twice = set()
        for file in folder.glob("*.onnx"):
            for node in onnx.load(file).graph.node:
                if len(node.input) != len(set(node.input)):
                    twice.add(node.op_type)
        self.assertEqual(twice, {"Add", "Mul", "Sub", "Div", "MatMul", "Conv", "Concat"})

    def test_skip_existing_notices_other_options(self):
        self.make("--small", "--only", "resnet18")
        file = self.out / "a/resnet18_small.onnx"
        first = file.stat().st_mtime_ns
        self.make("--small", "--only", "resnet18", "--skip-existing")
        self.assertEqual(file.stat().st_mtime_ns, first)
        self.make("--small", "--only", "resnet18", "--skip-existing", "--seed", "5")
        self.assertNotEqual(file.stat().st_mtime_ns, first)

    def test_bad_arguments(self):
        for arguments in (["--only", "resnet19"], ["--gemm", "1,2"], ["--conv", "1,2,3,4,0"]):
            done = subprocess.run([sys.executable, str(SCRIPT), str(self.out), *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, arguments)


if __name__ == "__main__":
    unittest.main()
