"""bench/suites/pairs.py and floors: sizes as published, models that compute, the longest of three bounds."""
import importlib.util
import os
import pathlib
import sys
import tempfile
import types
import unittest
import unittest.mock

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "scripts")]
import run  # noqa: E402
import suites  # noqa: E402
from harness import artefacts, floors, gpu_engines, report, rounds  # noqa: E402
from models import operators  # noqa: E402
from suites import pairs  # noqa: E402
from suites.case import Options, flop  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TW_BUILD", ROOT / "build/release"))
COMMANDS = [p for p in [BUILD / "tools" / "tilewright"] if p.is_file()]
HAS_TORCH = importlib.util.find_spec("torch") is not None
DEVICE = {"from": "measured on X", "gb_s": {"L2": {"copy": 5000}, "DRAM": {"read": 3000, "copy": 2500}},
          "peaks": [{"type": "f16", "matrix": True, "gops": 8e5}, {"type": "f16", "matrix": False, "gops": 1e5},
                    {"type": "f32", "matrix": False, "gops": 5e4}]}
RATES = {"from": "measured on X", "bytes_per_ms": 2.5e9, "flop_per_ms": 8e11}


class Pairs(unittest.TestCase):
    def test_sizes_are_the_published_ones(self):
        listed = pairs.specs()
        self.assertEqual(len({s["name"] for s in listed}), 12)
        products = [[(*s["shape"], s["n"]) for s in operators.stages(spec)] for spec in listed[:5]]
        self.assertEqual(products, [
            [(2464, 4, 1), (2464, 1, 4)], [(16384, 256, 64), (16384, 64, 16)], [(32768, 576, 128), (32768, 128, 64)],
            [(128320, 96, 32), (128320, 32, 96)], [(16384, 256, 64), (16384, 64, 64), (16384, 64, 16)]])
        convolutions = [[(s["in"][0], s["cin"], s["cout"], s["kernel"][0], operators.geometry(s)[3][0])
                         for s in operators.stages(spec)] for spec in listed[5:]]
        self.assertEqual(convolutions[0], [(224, 3, 48, 3, 112), (112, 48, 48, 1, 112)])
        self.assertEqual(convolutions[4], [(112, 64, 64, 3, 56), (56, 64, 64, 1, 56)])
        self.assertEqual(convolutions[6], [(56, 64, 64, 3, 56), (56, 64, 64, 1, 56), (56, 64, 64, 1, 56)])
        self.assertEqual({spec["batch"] for spec in listed[5:]}, {32})

    def test_flop_is_that_of_all_stages(self):
        self.assertEqual(flop(pairs.specs()[1]), 2 * 16384 * (256 * 64 + 64 * 16))
        self.assertEqual(flop(pairs.specs()[-2]), 2 * 32 * 56 * 56 * 64 * 64 * (9 + 1))

    def test_small_models_compute_and_no_stage_is_zero(self):
        with tempfile.TemporaryDirectory() as folder:
            cases = suites.cases("pairs", Options(pathlib.Path(folder), small=True))
            self.assertEqual(len(cases), 12)
            for case in cases:
                model = onnx.load(case.model)
                kinds = [n.op_type for n in model.graph.node]
                count = len(kinds) // 2
                self.assertEqual(kinds, ["Gemm" if case.family == "gemm" else "Conv", "Relu"] * count, case.name)
                self.assertEqual({len(n.input) for n in model.graph.node if n.op_type != "Relu"}, {3})  # with a bias
                outputs = [onnx.ValueInfoProto(name=n.output[0]) for n in model.graph.node if n.op_type == "Relu"]
                del model.graph.output[:]
                model.graph.output.extend(outputs)
                for value in ReferenceEvaluator(model).run(None, dict(np.load(case.feeds))):
                    self.assertGreater(value.std(), 0, case.name)

    def test_products_apart_are_measured_too(self):
        self.assertEqual(suites.VARIANTS["pairs"], {"apart": "--disable-pass fuse-chains"})
        with unittest.mock.patch.object(sys, "argv", ["run.py", "pairs", "--variant", "own=--no-measure"]):
            self.assertEqual(list(run.parse_arguments().variants), ["apart", "own"])


class Floors(unittest.TestCase):
    def test_rates_are_those_of_memory_and_of_the_type(self):
        self.assertEqual(floors.of_device(DEVICE, "f16"), RATES)
        self.assertEqual(floors.of_device(DEVICE, "f32")["flop_per_ms"], 5e10)
        sheet = {"from": "data sheet of X", "gb_s": {"DRAM": {"read": 3000, "copy": 0}}, "peaks": DEVICE["peaks"]}
        self.assertEqual(floors.of_device(sheet, "f16")["bytes_per_ms"], 3e9)
        self.assertIsNone(floors.of_device(dict(DEVICE, peaks=[]), "f16"))
        self.assertIsNone(floors.of_device(dict(DEVICE, gb_s={}), "f16"))

    def test_the_longest_bound_is_the_floor(self):
        self.assertEqual(floors.floor(5e6, 8e8, RATES, 0.001), {"ms": 0.002, "by": "memory"})
        self.assertEqual(floors.floor(5e6, 8e9, RATES, 0.001), {"ms": 0.01, "by": "arithmetic"})
        self.assertEqual(floors.floor(5e3, 8e3, RATES, 0.003), {"ms": 0.003, "by": "launch"})

    def test_bytes_are_those_of_the_edges_and_the_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            [case] = suites.cases("pairs", Options(pathlib.Path(folder), small=True, only=("gemm_2464",)))
            elements = 32 * 4 + 32 * 4 + 4 * 1 + 1 + 1 * 4 + 4
            self.assertEqual(floors.fused_bytes(case.model, "f32"), 4 * elements)
            self.assertEqual(floors.fused_bytes(case.model, "f16"), 2 * elements)

    def test_rows_show_it_and_the_empty_kernel_is_no_peer(self):
        engine = lambda ms, difference: {"version": "1", "ready_s": 0.1, "difference": difference,
                                         "rounds": [{"median": ms, "p10": ms}] * 3}
        with tempfile.TemporaryDirectory() as folder:
            [case] = suites.cases("pairs", Options(pathlib.Path(folder), small=True, only=("gemm_2464",)))
            measured = {"engines": {"tilewright": engine(0.004, 0.001), "eager": engine(0.01, 0.0005),
                                    "empty": engine(0.002, None)}, "failed": {}}
            row = run.gpu_row(case, measured, types.SimpleNamespace(dtype="f16", rates=RATES))
        self.assertEqual((row["floor"], row["best_peer"]), ({"ms": 0.002, "by": "launch"}, "eager"))
        self.assertIn("floor 0.002 ms (launch), 2.00 of it  differs 0.001 / 0.0005", report.line(row))
        facts = {"suite": "s", "processor": "p", "vectors": "v", "clock_mhz": "1", "cores": 2, "seed": 0,
                 "protocol": "x", "quick": False, "rates": RATES}
        text = report.markdown(facts, [row])
        self.assertIn("| floor ms | by | of floor |", text)
        self.assertIn("| 0.001 / 0.0005 | 0.002 | launch | 2.00 |", text)
        self.assertIn("2.50 TB/s and 800 TFLOP/s, measured on X", text)
        for line in (line for line in text.splitlines() if line.startswith("|")):
            self.assertEqual(line.count("|"), text.splitlines()[6].count("|"), line)

    @unittest.skipUnless(HAS_TORCH and COMMANDS, "not run: no torch, or no tilewright command")
    def test_one_pair_from_end_to_end(self):
        pool = self.enterContext(rounds.Pool())
        args = types.SimpleNamespace(pool=pool, tools=artefacts.find_tools(COMMANDS[0]), target="cpu", dtype="f16",
                                     compile_flags="--no-measure", engines=["tilewright", "eager"], rates=RATES,
                                     variants=suites.VARIANTS["pairs"], protocol=rounds.Protocol(3, 0.0, 0.01, 2))
        with tempfile.TemporaryDirectory() as folder:
            [case] = suites.cases("pairs", Options(pathlib.Path(folder), small=True, only=("conv_56_48",)))
            [row] = run.compare_on_gpu(case, args, device="cpu")
        self.assertEqual(row["failed"], {})
        self.assertEqual(set(row["engines"]), {"tilewright", "tilewright:apart", "eager"})
        self.assertGreater(row["floor"]["ms"], 0)
        self.assertNotIn(gpu_engines.EMPTY, row["ratios"])


if __name__ == "__main__":
    unittest.main()
