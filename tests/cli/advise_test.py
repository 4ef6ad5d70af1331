#!/usr/bin/env python3
"""The verb advise from outside: its table, the model that it writes, and what it refuses.

  TILEWRIGHT=PATH python3 -m unittest advise_test.Advise
"""
import json
import os
import unittest

import onnx_bytes as ob
from command_test import MODEL, USAGE, Case, npy_floats


def layers(channels=6, last=8, extent=12):
    """Two 3 x 3 convolutions, each with bias and ReLU, and the mean of each plane."""
    window = [("pads", [1, 1, 1, 1])]
    nodes = [ob.node("Conv", ["x", "w0", "b0"], ["c0"], "Conv_0", window), ob.node("Relu", ["c0"], ["r0"], "Relu_0"),
             ob.node("Conv", ["r0", "w1", "b1"], ["c1"], "Conv_1", window), ob.node("Relu", ["c1"], ["r1"], "Relu_1"),
             ob.node("GlobalAveragePool", ["r1"], ["y"], "Pool_0")]
    def filters(name, out, each):
        return ob.tensor(name, [out, each, 3, 3], [(i * 37 % 11 - 5) / 64 for i in range(out * each * 9)])
    def bias(name, out):
        return ob.tensor(name, [out], [(i - 2) / 8 for i in range(out)])
    return ob.model(nodes, [ob.value_info("x", [1, 3, extent, extent])], [ob.value_info("y", [1, last, 1, 1])],
                    [filters("w0", channels, 3), bias("b0", channels), filters("w1", last, channels), bias("b1", last)])


TARGET = ("--target", "cpu:x86-64-v3")


class Advise(Case):
    def setUp(self):
        super().setUp()
        self.write("layers.onnx", layers())

    def document(self, *words, **options):
        return json.loads(self.succeeds("advise", *words, "--json", **options).stdout)

    def number_of(self, kind, words=TARGET):
        return next(row["number"] for row in self.document("layers.onnx", *words)["advice"] if row["kind"] == kind)

    def test_the_table(self):
        document = self.document("layers.onnx", *TARGET)
        self.assertEqual((document["schema"], document["target"]), ("tilewright.advise.v1", "cpu:x86-64-v3"))
        self.assertEqual(document["not_measured"], "--no-measure")
        rows = document["advice"]
        self.assertEqual([row["number"] for row in rows], list(range(1, len(rows) + 1)))
        self.assertEqual({row["kind"] for row in rows}, {"activation", "deepen", "align"})
        deeper = next(row for row in rows if row["kind"] == "deepen")
        self.assertEqual((deeper["nodes"], deeper["parameters_added"], deeper["flop_added"]), (["Conv_0"], 6 * 6 + 6, 2 * 6 * 6 * 144))
        self.assertGreater(deeper["predicted_ms"]["after"], deeper["predicted_ms"]["before"])
        self.assertIsNone(deeper["measured_ms"])
        text = self.succeeds("advise", "layers.onnx", *TARGET).stdout
        for words in ("gelu instead of relu, 2 times", "behind 3 to 6 channels at 12x12, once", "8 channels instead of 6 at 12x12, once", "nothing is measured: --no-measure"):
            self.assertIn(words, text)
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 120)

    def test_channels_of_halves_fill_eight(self):
        rows = self.document("layers.onnx", "--target", "cuda:sm_90a", "--dtype", "f16")["advice"]
        self.assertEqual([row["what"] for row in rows if row["kind"] == "align"], ["8 channels instead of 6 at 12x12, once"])

    def test_changed_models_compile_and_verify(self):
        for row in self.document("layers.onnx", *TARGET)["advice"]:
            done = self.document("layers.onnx", *TARGET, "--apply", str(row["number"]), "-o", "new.onnx")
            self.assertEqual((done["applied"]["output"], done["applied"]["parameters_added"]), ("new.onnx", row["parameters_added"]))
            self.succeeds("verify", "new.onnx")

    def test_wider_channels_change_no_output(self):
        self.succeeds("advise", "layers.onnx", *TARGET, "--apply", str(self.number_of("align")), "-o", "new.onnx")
        self.succeeds("run", "layers.onnx", "--random", "seed=0", "--output", "y=@y.npy")
        self.succeeds("run", "new.onnx", "--random", "seed=0", "--output", "y=@z.npy")
        old, new = (npy_floats((self.folder / name).read_bytes()) for name in ("y.npy", "z.npy"))
        for a, b in zip(old, new, strict=True):
            self.assertAlmostEqual(a, b, places=4)

    def test_equal_seeds_write_equal_files(self):
        number = str(self.number_of("deepen"))
        for name, seed in (("a.onnx", "1"), ("b.onnx", "1"), ("c.onnx", "2")):
            self.succeeds("advise", "layers.onnx", *TARGET, "--apply", number, "-o", name, "--seed", seed)
        a, b, c = ((self.folder / name).read_bytes() for name in ("a.onnx", "b.onnx", "c.onnx"))
        self.assertEqual(a, b)
        self.assertNotEqual(a, c)

    def test_several_are_applied_together(self):
        rows = self.document("layers.onnx", *TARGET)["advice"]
        gelu = next(row["number"] for row in rows if row["what"].startswith("gelu instead"))
        deepen = [row["number"] for row in rows if row["kind"] == "deepen"]
        done = self.document("layers.onnx", *TARGET, "--apply", f"{deepen[0]},{gelu},{deepen[1]}", "-o", "new.onnx")
        self.assertEqual(done["applied"]["parameters_added"], 6 * 6 + 6 + 8 * 8 + 8)
        self.succeeds("verify", "new.onnx")
        self.fails(USAGE, ["advise", "layers.onnx", *TARGET, "--apply", f"{gelu},{gelu + 1}", "-o", "other.onnx"], "r0", "two ways", "apply one")
        align = self.number_of("align")
        self.fails(USAGE, ["advise", "layers.onnx", *TARGET, "--apply", f"{deepen[0]},{align}", "-o", "other.onnx"], "does not go together", "apply one")

    def test_measured_beside_predicted(self):
        environment = os.environ | {"TILEWRIGHT_NO_MEASURE": "0"}
        document = self.document("layers.onnx", "--measure", "1", env=environment)
        self.assertGreater(document["measured_ms"], 0)
        row = document["advice"][0]
        self.assertGreater(row["measured_ms"]["after"], 0)
        self.assertAlmostEqual(row["predicted_ms"]["after"] / row["measured_ms"]["after"] - 1, row["prediction_error"], places=5)
        self.assertIsNone(document["advice"][1]["measured_ms"])

    def test_nothing_to_advise(self):
        y = ob.model([ob.node("Softmax", ["x"], ["y"], "Softmax_0")], [ob.value_info("x", [4, 8])], [ob.value_info("y", [4, 8])])
        self.write("softmax.onnx", y)
        self.assertIn("no advice", self.succeeds("advise", "softmax.onnx").stdout)
        self.assertEqual(self.document("softmax.onnx")["advice"], [])
        self.fails(USAGE, ["advise", "softmax.onnx", "--apply", "1", "-o", "new.onnx"], "there is no advice 1", "none for this model")

    def test_wrong_words(self):
        for words, fragments in ((["--apply", "99", "-o", "new.onnx"], ["there is no advice 99", "1 to "]),
                                 (["--apply", "0", "-o", "new.onnx"], ["there is no advice 0"]),
                                 (["--apply", "two", "-o", "new.onnx"], ["--apply 'two'", "2,5"]),
                                 (["--apply", "1"], ["-o NEW.onnx"]),
                                 (["-o", "new.onnx"], ["--apply"]),
                                 (["--apply", "1", "-o", "new.tw"], ["new.tw", ".onnx"]),
                                 (["--apply", "1", "-o", "layers.onnx"], ["would be overwritten"]),
                                 (["--measure", "all", "--no-measure"], ["--measure all", "--no-measure"]),
                                 (["--measure", "some"], ["--measure some"]),
                                 (["--seed", "x"], ["--seed"]),
                                 (["--target", "cpu:x86-64-v4,cpu:x86-64-v3"], ["one target"]),
                                 (["--shape", "x:1x3x12x12,2x3x12x12"], ["one combination"])):
            self.fails(USAGE, ["advise", "layers.onnx", *words], *fragments)
        self.fails(USAGE, ["advise", "layers.tw"], "compiled already")
        self.fails(USAGE, ["advise", "missing.onnx"], "missing.onnx")
        self.write("bad.onnx", b"bad")
        self.fails(MODEL, ["advise", "bad.onnx"], "bad.onnx", "not an ONNX model")
        self.fails(2, ["advise", "layers.onnx", *TARGET, "--apply", "1", "-o", "missing/new.onnx"], "missing")


if __name__ == "__main__":
    unittest.main()
