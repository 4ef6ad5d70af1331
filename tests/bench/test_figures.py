"""bench/harness: bounds, ratios and tables say what the rounds say."""
import argparse
import pathlib
import sys
import types
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from harness import medians, options, ratios, report, rounds  # noqa: E402

FACTS = {"suite": "s", "processor": "p", "vectors": "AVX2", "clock_mhz": "1", "cores": 2, "seed": 0, "protocol": "x",
         "quick": False}
CASE = types.SimpleNamespace(name="case", family="f", batch=1, flop=2e6)


def engine(medians_, call=None):
    each = [{"median": m, "p10": m} | ({"call_median": call, "call_p10": call} if call else {}) for m in medians_]
    return {"version": "1", "ready_s": 0.1, "difference": 0.0, "rounds": each}


class Medians(unittest.TestCase):
    def test_bounds_hold_the_median_and_narrow_with_more_rounds(self):
        draw = np.random.default_rng(1)
        few, many = (medians.median_bounds(draw.normal(10, 1, n)) for n in (10, 400))
        for bounds in (few, many):
            self.assertLess(bounds["low95"], bounds["median"])
            self.assertLess(bounds["median"], bounds["high95"])
        self.assertLess(many["high95"] - many["low95"], 0.5 * (few["high95"] - few["low95"]))
        self.assertEqual(medians.median_bounds([3.0]), {"median": 3.0, "low95": 3.0, "high95": 3.0})

    def test_bounds_cover_the_true_median_in_about_95_of_100(self):
        draw = np.random.default_rng(2)
        bounds = [medians.median_bounds(draw.normal(0, 1, 31), seed) for seed in range(200)]
        covered = sum(b["low95"] <= 0 <= b["high95"] for b in bounds)
        self.assertGreater(covered, 175)

    def test_best_decile_and_geometric_mean(self):
        self.assertEqual(medians.best_decile([float(v) for v in range(30, 0, -1)]), 4.0)
        self.assertAlmostEqual(medians.geometric_mean([0.5, 2.0, 8.0]), 2.0)

    def test_differences_are_relative_to_the_largest_value(self):
        want = [np.array([1.0, -100.0]), np.array([2.0])]
        self.assertAlmostEqual(medians.largest_difference([want[0] + 1, want[1]], want), 0.01)
        self.assertEqual(medians.largest_difference(want[:1], want), float("inf"))
        self.assertEqual(medians.largest_difference([np.array([np.nan, 0.0]), want[1]], want), float("inf"))
        self.assertEqual(medians.largest_difference([np.zeros(3), want[1]], want), float("inf"))


class Rows(unittest.TestCase):
    def measured(self, **engines):
        return {"engines": engines, "failed": {}}

    def test_the_best_peer_is_the_one_with_the_smallest_ratio(self):
        row = ratios.row(CASE, 1, self.measured(tilewright=engine([2.0] * 5), onnxruntime=engine([3.0] * 5),
                                                openvino=engine([2.5] * 5)))
        self.assertEqual(row["best_peer"], "openvino")
        self.assertAlmostEqual(ratios.best_ratio(row)["median"], 1.25)
        self.assertAlmostEqual(row["ratios"]["onnxruntime"]["low95"], 1.5)

    def test_tilewright_with_other_flags_is_no_peer(self):
        row = ratios.row(CASE, 1, self.measured(**{"tilewright": engine([2.0] * 5), "tilewright:own": engine([2.4] * 5),
                                                   "openvino": engine([3.0] * 5)}))
        self.assertEqual(row["best_peer"], "openvino")
        summary = ratios.summary([row])[0]
        self.assertAlmostEqual(summary["geomean_over_best"], 1.5)
        self.assertAlmostEqual(summary["variants_over_best"]["tilewright:own"], 1.25)
        self.assertEqual(list(summary["geomean_over"]), ["openvino"])
        self.assertIn("tilewright:own over the best peer 1.250", report.summary_line(summary))
        self.assertEqual(report.header([row])[0], ["tilewright", "tilewright:own", "openvino"])

    def test_the_cost_of_a_call_is_taken_off(self):
        row = ratios.row(CASE, 1, self.measured(tilewright=engine([2.0] * 5, 1.0), onnxruntime=engine([5.0] * 5, 3.0)))
        self.assertAlmostEqual(ratios.best_ratio(row)["median"], 2.0)
        self.assertAlmostEqual(row["engines"]["onnxruntime"]["median"], 2.0)

    def test_a_row_without_tilewright_has_no_ratio(self):
        row = ratios.row(CASE, 1, {"engines": {"onnxruntime": engine([1.0])}, "failed": {"tilewright": "reason"}})
        self.assertIsNone(ratios.best_ratio(row))
        self.assertIn("reason", report.markdown(FACTS, [dict(row, peak_gflops=None)]))

    def test_summary_counts(self):
        slow = ratios.row(CASE, 1, self.measured(tilewright=engine([2.0] * 5), onnxruntime=engine([1.0] * 5)))
        fast = ratios.row(CASE, 1, self.measured(tilewright=engine([1.0] * 5), onnxruntime=engine([2.0] * 5)))
        summary = ratios.summary([slow, fast])[0]
        self.assertAlmostEqual(summary["geomean_over_best"], 1.0)
        self.assertEqual((summary["not_slower"], summary["faster"], summary["within_10_percent"]), (1, 1, 1))
        self.assertAlmostEqual(summary["smallest"], 0.5)

    def test_the_share_of_the_peak_is_of_the_best_decile(self):
        row = dict(ratios.row(CASE, 1, self.measured(tilewright=engine([1.0] * 5))), peak_gflops=4.0)
        self.assertAlmostEqual(report.peak_share(row, "tilewright"), 50.0)  # 2e6 flop in 1 ms are 2 GFLOP/s


class Flags(unittest.TestCase):
    def test_variants_have_a_name_and_flags(self):
        self.assertEqual(options.named_flags("own=--libraries none --plan-out a=b"), ("own", "--libraries none --plan-out a=b"))
        for text in ("own", "=--no-measure", "a/b=--no-measure"):
            with self.assertRaisesRegex(argparse.ArgumentTypeError, "is not NAME=FLAGS"):
                options.named_flags(text)


class WrongEngines(unittest.TestCase):
    def test_an_engine_that_failed_is_named_with_its_exception(self):
        log = "Traceback:\n  run()\ntorch.AcceleratorError: CUDA error: out of memory\nCompile with X for more.\n\n"
        self.assertEqual(rounds.reason_in(log), "torch.AcceleratorError: CUDA error: out of memory")
        self.assertEqual(rounds.reason_in("killed\n"), "killed")
        self.assertEqual(rounds.reason_in(""), "no answer in time")

    def test_an_engine_with_other_outputs_is_taken_out(self):
        make = lambda array: types.SimpleNamespace(outputs=[np.asarray(array)])
        workers = {"reference": make([1.0, 2.0]), "good": make([1.0, 2.001]), "bad": make([1.0, 2.2])}
        failed = {}
        differences = rounds.refuse_wrong(workers, failed, "reference")
        self.assertEqual(sorted(workers), ["good", "reference"])
        self.assertIn("outputs differ", failed["bad"])
        self.assertAlmostEqual(differences["bad"], 0.1)

    def test_peers_tell_what_a_model_does_to_narrow_floats(self):
        bounds = medians.Tolerance(0.02, 0.15)
        self.assertAlmostEqual(rounds.allowed("tilewright", {"tilewright": 0.3, "eager": 0.03, "xla": 0.05}, bounds), 0.06)
        self.assertAlmostEqual(rounds.allowed("eager", {"tilewright": 0.0, "eager": 0.3}, bounds), 0.15)
        self.assertAlmostEqual(rounds.allowed("tilewright", {"tilewright": 0.0, "eager": 0.001}, bounds), 0.02)
        self.assertAlmostEqual(rounds.allowed("tilewright", {"tilewright": 0.0, "eager": 0.5}, bounds), 0.15)
        by_eager = medians.Tolerance(0.001, 0.15, "eager")
        far = {"tilewright": 0.004, "eager": 0.003, "xla": 0.001}
        self.assertAlmostEqual(rounds.allowed("tilewright", far, by_eager), 0.006)
        self.assertAlmostEqual(rounds.allowed("eager", far, by_eager), 0.15)
        self.assertAlmostEqual(rounds.allowed("tilewright", {"tilewright": 0.004, "eager": 0.0}, by_eager), 0.001)

    def test_what_does_nothing_is_not_compared(self):
        make = lambda *arrays: types.SimpleNamespace(outputs=[np.asarray(a) for a in arrays])
        workers, failed = {"reference": make([1.0]), "empty": make(), "broken": make()}, {}
        differences = rounds.refuse_wrong(workers, failed, "reference")
        self.assertEqual((sorted(workers), list(failed)), (["empty", "reference"], ["broken"]))
        self.assertNotIn("empty", differences)


if __name__ == "__main__":
    unittest.main()
