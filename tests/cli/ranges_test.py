"""Dimensions with a range: `--dim n=1..20`, what `run` takes then, what `inspect` and `verify` say.

  TILEWRIGHT=PATH python3 -m unittest ranges_test.Ranges
"""
import json

import onnx_bytes as ob
from command_test import MODEL, USAGE, Case, npy, npy_floats


class Ranges(Case):
    def setUp(self):
        super().setUp()
        self.write("dense.onnx", ob.dense(batch="n"))
        self.succeeds("compile", "dense.onnx", "--dim", "n=1..20", "--no-measure", "-o", "dense.tw")

    def test_every_size_runs(self):
        for n in (1, 7, 8, 9, 16, 20, 21, 45):  # the last two in parts
            x = [(i * 7 % 11) / 4 - 1 for i in range(3 * n)]
            self.write("x.npy", npy((n, 3), x))
            shown = self.succeeds("run", "dense.tw", "--input", "x.npy", "--output", "y=@y.npy").stdout
            self.assertIn(f"y: f32[{n},5]", shown)
            got = npy_floats((self.folder / "y.npy").read_bytes())
            want = ob.dense_reference(x, m=n)
            self.assertEqual(len(got), len(want))
            for a, b in zip(got, want):
                self.assertAlmostEqual(a, b, places=5)

    def test_other_sizes_are_refused(self):
        summed = ob.model([ob.node("ReduceSum", ["x"], ["y"], "summed")], [ob.value_info("x", ["n", 3])], [ob.value_info("y", [1, 1])])
        self.write("summed.onnx", summed)
        self.succeeds("compile", "summed.onnx", "--dim", "n=1..20", "--no-measure", "-o", "summed.tw")
        self.write("x.npy", npy((21, 3), [0.5] * 63))
        self.fails(USAGE, ["run", "summed.tw", "--input", "x.npy"], "x:17..20x3", "x:1..8x3")

    def test_inspect_shows_ranges(self):
        shown = self.succeeds("inspect", "dense.tw", "--check").stdout
        self.assertIn("entry x:9..16x3 ", shown)
        self.assertIn("  n is 9 to 16, as the inputs say, or more, in parts;", shown)
        entries = json.loads(self.succeeds("inspect", "dense.tw", "--json").stdout)["manifest"]["entries"]
        self.assertEqual(entries[1]["extents"], [{"name": "n", "least": 9, "bound": 16, "inputs": [{"tensor": 0, "dim": 0, "times": 1}],
                                                  "outputs": [{"tensor": 0, "dim": 0, "times": 1}], "in_parts": True}])

    def test_verify_takes_sizes_between(self):
        self.succeeds("verify", "dense.tw")
        self.write("x.npy", npy((5, 3), [0.25 * i for i in range(15)]))
        self.succeeds("verify", "dense.tw", "--input", "x.npy")

    def test_a_node_that_mixes_rows_is_named(self):
        largest = ob.model([ob.node("ArgMax", ["x"], ["y"], "largest")], [ob.value_info("x", ["n", 3])], [ob.value_info("y", [1, 3], ob.I64)])
        self.write("largest.onnx", largest)
        self.fails(MODEL, ["compile", "largest.onnx", "--dim", "n=4..8"], "--dim n=4..8", "node 'largest' (arg_max)", "List the sizes instead: --dim n=4,8")
