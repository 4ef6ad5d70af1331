"""bench/run.py and bench/ablate.py from end to end: compile, workers, rounds, tables. Needs a build and onnxruntime."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TW_BUILD", ROOT / "build/release"))
COMMANDS = [p for p in [BUILD / "tools" / "tilewright"] if p.is_file()]


@unittest.skipUnless(COMMANDS, "no tilewright command: build it first")
@unittest.skipUnless(importlib.util.find_spec("onnxruntime"), "onnxruntime is not installed")
class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.out = pathlib.Path(cls.folder.name)
        subprocess.run([sys.executable, ROOT / "scripts/make_models.py", cls.out, "--only", "mlp", "--inputs"], check=True,
                       stdout=subprocess.DEVNULL)

    def bench(self, script, *arguments):
        done = subprocess.run([sys.executable, ROOT / "bench" / script, *arguments, "--tilewright", COMMANDS[0], "--out",
                               self.out, "--threads", "1"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_model_beside_onnxruntime(self):
        text = self.bench("run.py", self.out / "mlp.onnx", "--rounds", "3", "--engines", "tilewright,onnxruntime",
                          "--variant", "unfused=--disable-pass fuse --no-measure")
        self.assertIn("geometric mean over the best peer", text)
        document = json.loads((self.out / "mlp.json").read_text())
        row = document["rows"][0]
        self.assertEqual(row["failed"], {})
        self.assertEqual(row["best_peer"], "onnxruntime")
        for label in ("tilewright", "tilewright:unfused"):
            self.assertLess(row["engines"][label]["difference"], 1e-4)
        self.assertTrue((self.out / "mlp.md").read_text().startswith("# mlp"))

    def test_an_engine_that_cannot_start_is_named_and_the_others_are_measured(self):
        text = self.bench("run.py", self.out / "mlp.onnx", "--quick", "--engines", "tilewright,onnxruntime",
                          "--compile-flags", "--disable-pass nosuch")
        self.assertIn("onnxruntime", text)
        row = json.loads((self.out / "mlp.json").read_text())["rows"][0]
        self.assertIn("tilewright", row["failed"])
        self.assertEqual(list(row["engines"]), ["onnxruntime"])

    def test_ablation(self):
        self.bench("ablate.py", self.out / "mlp.onnx", "--quick", "--without", "optional=--no-optional-passes",
                   "--without", "nothing=--disable-pass fold-batch-norm", "--without", "unknown=--no-such-flag")
        costs = json.loads((self.out / "mlp-ablation.json").read_text())["rows"][0]["costs"]
        self.assertGreater(costs["optional"]["median"], 0)
        self.assertIsNone(costs["nothing"])  # the same code
        table = (self.out / "mlp-ablation.md").read_text().splitlines()[-1]
        self.assertTrue(table.endswith("| 1.000 | failed |"), table)


if __name__ == "__main__":
    unittest.main()
