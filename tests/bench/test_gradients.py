"""bench/gradients.py: some of its random graphs, and what its judge finds.

  TW_BUILD=build/ci python3 -m unittest discover -s tests/bench -p 'test_gradients.py'
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

COMMAND = ROOT / os.environ.get("TW_BUILD", "build/ci") / "tools" / "tilewright"
HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "onnx", "onnxruntime"))


@unittest.skipUnless(HAS_TORCH, "not run: no torch, onnx and onnxruntime (bench/setup.sh)")
class Judge(unittest.TestCase):
    """Of gradients that are off by as much as the test says."""

    def verdict(self, scale, lacking=()):
        import numpy as np
        from beside_torch import compared
        want = {"w": np.array([1.0, -2.0]), "b": np.array([1e-9])}
        ours = {name: value * scale for name, value in want.items() if name not in lacking}
        theirs = {name: value * (1 + 1e-7) for name, value in want.items()}
        return compared.judge(want, ours, theirs, lacking, (1.0, 1.0))

    def test_rounding_is_right_and_more_is_not(self):
        self.assertEqual(self.verdict(1 + 1e-6).verdict, "right")
        self.assertEqual(self.verdict(1 + 1e-3).verdict, "wrong")
        self.assertEqual(self.verdict(float("nan")).verdict, "wrong")

    def test_a_gradient_that_lacks_is_wrong(self):
        result = self.verdict(1, lacking=["w"])
        self.assertEqual(result.verdict, "wrong")
        self.assertIn("'w' [2] has none", result.detail)


@unittest.skipUnless(COMMAND.is_file(), f"not run: no {COMMAND}")
@unittest.skipUnless(HAS_TORCH, "not run: no torch, onnx and onnxruntime (bench/setup.sh)")
class Graphs(unittest.TestCase):
    def count(self, *words):
        done = subprocess.run([sys.executable, ROOT / "bench" / "gradients.py", *words, "--tilewright", COMMAND],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return json.loads(done.stdout.splitlines()[-1])

    def test_random_graphs_by_torchscript(self):
        counted = self.count("graphs", "--count", "20", "--exporters", "torchscript")
        self.assertGreaterEqual(counted["right"], 18)
        self.assertGreaterEqual(counted["parameters"], 40)

    def test_random_graphs_by_dynamo(self):
        self.assertGreaterEqual(self.count("graphs", "--count", "3", "--exporters", "dynamo")["right"], 2)

    def test_a_network(self):
        self.assertEqual(self.count("networks", "--only", "vit", "--exporters", "torchscript")["right"], 1)


if __name__ == "__main__":
    unittest.main()
