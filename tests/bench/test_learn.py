"""bench/learn.py: what judges curves, and a short training of digits.

  TW_BUILD=build/ci python3 -m unittest discover -s tests/bench -p 'test_learn.py'
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from learning import judge, picture  # noqa: E402

COMMAND = ROOT / os.environ.get("TW_BUILD", "build/ci") / "tools" / "tilewright"


def falling(seed, shift=0.0, noise=0.05):
    random = np.random.default_rng(seed)
    level = 1 + 0.2 * (seed % 5 - 2)  # seeds differ by their weights and batches
    return 2 * level * np.exp(-np.arange(200) / 60) + random.normal(0, noise, 200) + shift


class Judge(unittest.TestCase):
    def test_noise_is_alike(self):
        verdict = judge.compare([falling(s) for s in range(5)], [falling(s + 10) for s in range(5)])
        self.assertTrue(verdict["alike"], verdict)

    def test_a_shift_is_not(self):
        verdict = judge.compare([falling(s, 0.1) for s in range(5)], [falling(s + 10) for s in range(5)])
        self.assertFalse(verdict["alike"], verdict)

    def test_one_seed_that_goes_astray_is_not(self):
        ours = [falling(s) for s in range(5)]
        ours[3] = ours[3] * 4
        verdict = judge.compare(ours, [falling(s + 10) for s in range(5)])
        self.assertFalse(verdict["within"])
        self.assertFalse(verdict["alike"])

    def test_a_picture_has_a_line_for_each_curve(self):
        text = picture.draw("t", {"tilewright": [falling(0), falling(1)], "torch": [falling(2)]})
        self.assertEqual(text.count("<polyline"), 3)


@unittest.skipUnless(COMMAND.is_file(), f"not run: no {COMMAND}")
@unittest.skipUnless(importlib.util.find_spec("sklearn"), "not run: no scikit-learn, which has the digits")
class Digits(unittest.TestCase):
    def learn(self, *words):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([sys.executable, ROOT / "bench" / "learn.py", "digits", "--tilewright", COMMAND, "--peer",
                                   "none", "--out", out, *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            result = pathlib.Path(out) / "digits.json"
            return done.stdout, json.loads(result.read_text()) if result.exists() else None

    def test_learns_digits(self):
        _, result = self.learn("--seeds", "1")
        self.assertGreaterEqual(result["held_out"]["tilewright"][0], 0.98)
        curve = judge.smoothed(result["curves"]["tilewright"][0])
        self.assertLess(curve[-1], 0.1 * curve[0])

    def test_a_run_that_is_killed_goes_on(self):
        text, _ = self.learn("--kill", "--steps", "80")
        self.assertIn("the same bits", text)


if __name__ == "__main__":
    unittest.main()
