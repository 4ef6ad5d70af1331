"""bench/train.py: what is measured, and a small network in all engines.

  TW_BUILD=build/ci python3 -m unittest discover -s tests/bench -p 'test_train.py'
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from training import cases  # noqa: E402

COMMAND = ROOT / os.environ.get("TW_BUILD", "build/ci") / "tools" / "tilewright"
HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "torchvision", "transformers", "onnx"))


class Cases(unittest.TestCase):
    def test_of_a_device(self):
        self.assertEqual({name for name, _ in cases.specs(False, False, [], 0)}, set(cases.ON_CPUS))
        self.assertEqual({name for name, _ in cases.specs(True, False, [], 0)}, set(cases.CASES))
        small = dict(cases.specs(False, True, ["gpt2", "cnn"], 3))
        self.assertEqual(sorted(small), ["cnn_b32", "gpt2_b8"])
        self.assertTrue(all(spec["small"] and spec["batch"] <= 4 and spec["seed"] == 3 for spec in small.values()))


@unittest.skipUnless(COMMAND.is_file(), f"not run: no {COMMAND}")
@unittest.skipUnless(HAS_TORCH, "not run: no torch, torchvision, transformers and onnx (bench/setup.sh)")
class Steps(unittest.TestCase):
    def rows(self, *words):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([sys.executable, ROOT / "bench" / "train.py", "--small", "--quick", "--rounds", "2", "--threads",
                                   "1", "--engines", "tilewright,eager", "--train-flags=--no-measure", "--tilewright", COMMAND,
                                   "--out", out, *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads((pathlib.Path(out) / "training.json").read_text())["rows"]

    def test_steps_and_gradients_are_torchs(self):
        rows = self.rows("--only", "cnn,encoder_b8")
        self.assertEqual([r["case"] for r in rows], ["encoder_b8_l512", "encoder_b8_l512_dropout", "cnn_b32"])
        for row in rows:
            self.assertEqual(row["failed"], {}, row["case"])
            self.assertLess(row["engines"]["tilewright"]["difference"], 5e-2 if "dropout" in row["case"] else 2e-3)
            self.assertTrue(all(e["memory_bytes"] > 0 and e["median"] > 0 for e in row["engines"].values()), row)

    def test_a_wrong_engine_has_no_time(self):
        from training import engines
        row, = self.rows("--only", "bert_tiny", "--train-flags=--no-measure --beta1 0.5")
        self.assertNotIn("tilewright", row["engines"])
        self.assertIn("differ", row["failed"]["tilewright"])
        self.assertGreater(engines.STEPS, 1)  # the first loss is before any step


if __name__ == "__main__":
    unittest.main()
