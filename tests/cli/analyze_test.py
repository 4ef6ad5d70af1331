#!/usr/bin/env python3
"""The verb analyze from outside: counts, classes and bounds, as text, as JSON and for Graphviz, and what it refuses.

  TILEWRIGHT=PATH python3 -m unittest analyze_test.Analyze
"""
import json
import math
import unittest

import onnx_bytes as ob
from command_test import MODEL, USAGE, Case

ROWS, STEPS, COLUMNS = 24, 16, 32


def scores(rows=ROWS):
    """transpose(softmax(x w))."""
    nodes = [ob.node("MatMul", ["x", "w"], ["s"], "MatMul_0"), ob.node("Softmax", ["s"], ["p"], "Softmax_0"),
             ob.node("Transpose", ["p"], ["y"], "Transpose_0", [("perm", [1, 0])])]
    weights = ob.tensor("w", [STEPS, COLUMNS], [(i * 37 % 11 - 5) / 16 for i in range(STEPS * COLUMNS)])
    return ob.model(nodes, [ob.value_info("x", [rows, STEPS])], [ob.value_info("y", [COLUMNS, rows])], [weights])


class Analyze(Case):
    def setUp(self):
        super().setUp()
        self.write("scores.onnx", scores())

    def document(self, *words):
        return json.loads(self.succeeds("analyze", *words, "--json").stdout)

    def test_counts_of_operators_and_edges(self):
        document = self.document("scores.onnx", "--no-run")
        self.assertEqual(document["schema"], "tilewright.analyze.v1")
        points = ROWS * COLUMNS
        counted = [(o["name"], o["op"], o["class"], o["flop"], o["words_read"], o["words_written"]) for o in document["operators"]]
        self.assertEqual(counted, [
            ("MatMul_0", "matmul", "contraction", 2 * points * STEPS, ROWS * STEPS + STEPS * COLUMNS, points),
            ("Softmax_0", "softmax", "normalization", 4 * points + ROWS, points, points),
            ("Transpose_0", "transpose", "elementwise", 0, points, points)])
        self.assertEqual(document["operators"][1]["space"], [
            {"axis": "i0", "extent": ROWS, "role": "independent", "applied": False},
            {"axis": "i1", "extent": COLUMNS, "role": "reduction", "applied": True}])
        edges = [(e["from"], e["to"], e["words"], e["constant"]) for e in document["edges"]]
        self.assertEqual(edges, [(None, 0, ROWS * STEPS, False), (None, 0, STEPS * COLUMNS, True), (0, 1, points, False),
                                 (1, 2, points, False), (2, None, points, False)])
        self.assertEqual(document["edges"][2]["type"], f"f32[{ROWS},{COLUMNS}]")
        self.assertNotIn("groups", document)

    def test_shares_of_classes(self):
        classes = {c["class"]: c for c in self.document("scores.onnx", "--no-run")["classes"]}
        product, softmax = 2 * ROWS * COLUMNS * STEPS, 4 * ROWS * COLUMNS + ROWS
        self.assertEqual([c["operators"] for c in classes.values()], [1, 1, 1])
        self.assertAlmostEqual(classes["contraction"]["flop_percent"], 100 * product / (product + softmax), places=3)
        self.assertEqual(classes["elementwise"]["flop_percent"], 0)
        self.assertIsNone(classes["contraction"]["time_percent"])

    def check_groups(self, document):
        groups = document["groups"]
        self.assertGreater(len(groups), 0)
        self.assertEqual(groups[0]["class"], "contraction")
        self.assertEqual(document["times_from"], "run")
        for group in groups:
            mue = 100 * group["bound_bytes"] / (group["time_us"] * 1000 * document["dram_bytes_per_ns"])
            self.assertAlmostEqual(group["mue_percent"] / mue, 1, places=3)
            self.assertEqual(group["bound"], "memory" if group["mue_percent"] > (group["peak_percent"] or 0) else "compute")
        time = sum(group["time_us"] for group in groups)
        self.assertAlmostEqual(sum(c["time_us"] or 0 for c in document["classes"]) / time, 1, places=3)
        self.assertGreaterEqual(sum(group["operators"] for group in groups), 2)  # a transpose may be a view

    def test_groups_of_a_model_and_of_its_artefact(self):
        document = self.document("scores.onnx")
        self.check_groups(document)
        self.succeeds("compile", "scores.onnx", "-o", "scores.tw")
        compiled = self.document("scores.tw")
        self.check_groups(compiled)
        self.assertEqual([o["flop"] for o in compiled["operators"]], [o["flop"] for o in document["operators"]])

    def test_the_tables(self):
        text = self.succeeds("analyze", "scores.onnx", "--no-run", "--edges").stdout
        for words in ("3 operators, 5 edges", "words: elements of tensors", "24 x 32 special, 16 reduction",
                      "24 independent, 32 reduction", "Softmax_0 (softmax)", "24.6 k", "a constant", "an output"):
            self.assertIn(words, text)
        self.assertNotIn("MUE", text)
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 130)
        first = self.succeeds("analyze", "scores.onnx", "--no-run", "--top", "1").stdout
        self.assertIn("1 of 3 operators", first)
        self.assertNotIn("Softmax_0", first)
        full = self.succeeds("analyze", "scores.onnx").stdout
        for words in ("MUE", "of peak", "times are of a run now", "GB/s", "memory"):
            self.assertIn(words, full)

    def test_views_move_nothing(self):
        nodes = [ob.node("Flatten", ["x"], ["f"], "Flatten_0"), ob.node("Relu", ["f"], ["y"], "Relu_0")]
        self.write("view.onnx", ob.model(nodes, [ob.value_info("x", [2, 3, 4])], [ob.value_info("y", [2, 12])]))
        operators = self.document("view.onnx", "--no-run")["operators"]
        views = [o for o in operators if o["view"]]
        self.assertEqual([(o["words_read"], o["words_written"], o["flop"]) for o in views], [(0, 0, 0)])

    def test_a_picture(self):
        self.succeeds("analyze", "scores.onnx", "--no-run", "--dot", "flow.dot")
        dot = (self.folder / "flow.dot").read_text()
        self.assertTrue(dot.startswith('digraph "scores.onnx" {'))
        for words in ('o0 -> o1 [label="768"]', "MatMul_0 (matmul)", "o2 -> e"):
            self.assertIn(words, dot)

    def linear(self):
        """mean((x w - labels)^2), with x of ROWS by STEPS."""
        nodes = [ob.node("MatMul", ["x", "w"], ["y"], "MatMul_0")]
        self.write("linear.onnx", ob.model(nodes, [ob.value_info("x", [ROWS, STEPS])], [ob.value_info("y", [ROWS, COLUMNS])],
                                           [ob.tensor("w", [STEPS, COLUMNS], [0.25] * STEPS * COLUMNS)]))

    def test_training_without_compiling(self):
        self.linear()
        words = ["linear.onnx", "--no-run", "--loss", "mse", "--optimizer", "sgd", "--function"]
        product = 2 * ROWS * COLUMNS * STEPS
        grads = self.document(*words, "grads")
        contractions = [o for o in grads["operators"] if o["class"] == "contraction"]
        self.assertEqual([(o["name"], o["flop"]) for o in contractions], [("MatMul_0", product), ("MatMul_0.grad", product)])
        self.assertEqual([e["value"] for e in grads["edges"] if e["to"] is None], ["loss", "w.grad"])
        for edge in grads["edges"]:
            dims = [int(d) for d in edge["type"].split("[")[1].rstrip("]").split(",") if d]
            self.assertEqual(edge["words"], math.prod(dims), edge)
        self.assertEqual(sum(o["class"] == "contraction" for o in self.document(*words, "eval")["operators"]), 1)
        step = {e["value"] for e in self.document(*words, "step")["edges"] if e["to"] is None}
        self.assertIn("w.next", step)
        self.assertNotIn("groups", grads)

    def test_training_that_is_compiled(self):
        self.linear()
        self.succeeds("train", "linear.onnx", "--loss", "mse", "--optimizer", "sgd", "-o", "linear.tw")
        document = self.document("linear.tw", "--function", "grads")
        operators = [o["name"] for o in document["operators"]]
        held = [operators[g["first_operator"]:g["first_operator"] + g["operators"]] for g in document["groups"]]
        contractions = [names for names, g in zip(held, document["groups"]) if g["class"] == "contraction"]
        self.assertEqual(sorted(n for names in contractions for n in names if n.startswith("MatMul_0"))[0], "MatMul_0")
        self.assertTrue(any("MatMul_0.grad" in names for names in contractions), held)
        entry = next(e for e in json.loads(self.succeeds("inspect", "linear.tw", "--json").stdout)["manifest"]["entries"]
                     if e["function"] == "grads")
        self.assertEqual(sum(g["steps"] for g in document["groups"]), len(entry["steps"]))
        # A step reads parameters and moments, and writes them in their place.
        for groups in (document["groups"], self.document("linear.tw", "--function", "step")["groups"]):
            self.assertTrue(all(g["moved_bytes"] >= g["bound_bytes"] > 0 for g in groups), groups)

    def test_refusals_about_training(self):
        self.linear()
        self.fails(USAGE, ["analyze", "linear.onnx", "--no-run", "--loss", "mse"], "--loss", "--function")
        self.fails(USAGE, ["analyze", "linear.onnx", "--function", "grads"], "--no-run", "train")
        self.fails(USAGE, ["analyze", "linear.onnx", "--no-run", "--function", "gradients", "--loss", "mse"], "gradients", "step, grads, eval")
        self.fails(USAGE, ["analyze", "linear.onnx", "--no-run", "--function", "grads", "--momentum", "0.9"], "--momentum", "sgd")
        self.succeeds("train", "linear.onnx", "--loss", "mse", "-o", "linear.tw")
        self.fails(USAGE, ["analyze", "linear.tw", "--no-run", "--loss", "mse"], "--loss", "ONNX")

    def test_refusals(self):
        self.fails(USAGE, ["analyze"], "MODEL")
        self.fails(USAGE, ["analyze", "none.onnx", "--no-run"], "none.onnx")
        self.fails(USAGE, ["analyze", "scores.onnx", "--no-run", "--dot", "scores.onnx"], "scores.onnx")
        self.fails(USAGE, ["analyze", "scores.onnx", "--no-run", "--entry", "x:1x2"], "--entry", "--shape")
        self.fails(MODEL, ["analyze", "scores.onnx", "--no-run", "--shape", "x:4x5"], "x")
        self.write("broken.onnx", scores()[:-40])
        self.fails(MODEL, ["analyze", "broken.onnx", "--no-run"], "broken.onnx", "truncated")
        self.write("any.onnx", scores("rows"))
        self.fails(USAGE, ["analyze", "any.onnx", "--no-run", "--dim", "rows=2,4"], "one combination of shapes")


if __name__ == "__main__":
    unittest.main()
