"""bench/encoder_tables.py and bench/moved_bytes.py: the paper's counts, a small layer that is compiled, ncu's tables.

  TW_BUILD=build/ci python3 -m unittest discover -s tests/bench -p 'test_encoder_tables.py'
"""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
COMMAND = ROOT / os.environ.get("TW_BUILD", "build/ci") / "tools" / "tilewright"
HAS_ONNX = importlib.util.find_spec("onnx") is not None
HAS_LLVM = COMMAND.is_file() and "cpu" in subprocess.run([COMMAND, "doctor", "--json"], capture_output=True, text=True).stdout


def group(name, steps, bound):
    return {"name": name, "class": "elementwise", "steps": steps, "bound_bytes": bound, "moved_bytes": bound}


def line(number, counter, unit, value):
    return f'"{number}","kernel","{counter}","{unit}","{value}"'


@unittest.skipUnless(HAS_ONNX, "not run: no onnx")
class Counters(unittest.TestCase):
    def text(self):
        import moved_bytes
        read, write, through = moved_bytes.COUNTERS
        rows = ['==PROF== Connected', '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"']
        for number, (a, b) in enumerate([("1.5", "500"), ("2,000", "0"), ("1", "1")]):
            rows += [line(number, read, "Kbyte", a), line(number, write, "byte", b), line(number, through, "Mbyte", "3")]
        return "\n".join(rows)

    def test_kernels_by_group(self):
        import moved_bytes
        kernels = moved_bytes.counted(self.text())
        rows = moved_bytes.by_group([group("a", 1, 2000), group("view", 0, 0), group("b", 2, 1_000_000)], kernels)
        dram = [moved[moved_bytes.COUNTERS[0]] + moved[moved_bytes.COUNTERS[1]] for _, moved in rows]
        self.assertEqual(dram, [2000, 0, 2_001_001])
        self.assertEqual([g["name"] for g in moved_bytes.near([rows[0], rows[2]])], ["a"])
        self.assertIn("| b | elementwise | 1.0 | 1.0 | 2.0 | 2.00 | 6.0 |", moved_bytes.markdown(rows[2:]))

    def test_kernels_that_nobody_knows(self):
        import moved_bytes
        with self.assertRaisesRegex(SystemExit, "2 kernels, ncu saw 3"):
            moved_bytes.by_group([group("a", 2, 1)], moved_bytes.counted(self.text()))


@unittest.skipUnless(COMMAND.is_file(), f"not run: no {COMMAND}")
@unittest.skipUnless(HAS_ONNX, "not run: no onnx")
class Tables(unittest.TestCase):
    def run_script(self, *words):
        return subprocess.run([sys.executable, ROOT / "bench" / "encoder_tables.py", "--tilewright", COMMAND, *words],
                              capture_output=True, text=True)

    def test_counts_are_the_papers(self):
        done = self.run_script()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for row in ("| contraction | 312 | 312 |", "| elementwise | 0.098 | 0.098 |",
                    "| Scaled softmax | normalization | 0.188 | 0.188 | 33.5 | 33.5 | 100.6 | 67.1 + 33.5 |"):
            self.assertIn(row, done.stdout)

    def test_a_difference_without_a_reason(self):
        from paper import flow, table3
        row = table3.rows()[0]
        compared = [table3.Compared(row, [], flop, 7_340_032, 12_582_912, 0, 0) for flop in (24 << 30, 25 << 30)]
        empty = flow.Flow({"operators": [], "edges": []})
        told = [sentence for sentence in table3.unexplained(empty, compared) if sentence.startswith(row.label)]
        self.assertEqual(len(told), 1)
        self.assertIn("25.0000", told[0])

    def test_a_small_layer_is_timed(self):
        done = self.run_script("--small", "--target", "cpu", "--train-flags=--no-measure")
        if "code for CPUs" in done.stderr:
            self.skipTest("not run: a build without LLVM")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\| QKV fused \| 275 \| \d+ \| 291 \| [1-9]\d* \|")
        groups = [r.split(" | ") for r in done.stdout.split("## Groups")[1].splitlines() if re.match(r"\| \S", r)][2:]
        held = {label for r in groups for label in r[1].split(", ")}
        self.assertLessEqual({"Q, K, V dX".split(", ")[0], "Gamma dX1", "Scaled softmax", "Linear dW"}, held)


if __name__ == "__main__":
    unittest.main()
