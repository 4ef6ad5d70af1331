#!/usr/bin/env python3
"""The verbs train and export-weights from outside: functions of an artefact, trained weights in an ONNX model.

  TILEWRIGHT=PATH python3 -m unittest train_test.Train train_test.ExportWeights
"""
import json
import math
import unittest

import onnx_bytes as ob
from command_test import EXHAUSTED, MODEL, USAGE, Case, npy, npy_floats, safetensors

SAMPLES, FEATURES, CLASSES = 5, 4, 3
WEIGHTS = [(i * 37 % 11 - 5) / 16 for i in range(FEATURES * CLASSES)]


def linear(batch=SAMPLES):
    nodes = [ob.node("MatMul", ["x", "w"], ["p"], "MatMul_0"), ob.node("Add", ["p", "b"], ["y"], "Add_0")]
    return ob.model(nodes, [ob.value_info("x", [batch, FEATURES])], [ob.value_info("y", [batch, CLASSES])],
                    [ob.tensor("w", [FEATURES, CLASSES], WEIGHTS), ob.tensor("b", [CLASSES], [0.5, -0.25, 0.125])])


class Train(Case):
    def setUp(self):
        super().setUp()
        self.write("linear.onnx", linear())

    def test_a_step(self):
        document = json.loads(self.succeeds("train", "linear.onnx", "--loss", "mse", "--optimizer", "adam", "--json").stdout)
        self.assertEqual((document["schema"], document["output"]), ("tilewright.train.v1", "linear.train.tw"))
        self.assertEqual((document["parameters"], document["elements"]), (2, FEATURES * CLASSES + CLASSES))
        self.assertEqual(document["states"], ["w", "w.m", "w.v", "b", "b.m", "b.v", "step", "skipped_steps"])
        described = json.loads(self.succeeds("inspect", "linear.train.tw", "--json").stdout)
        def size(tensor):
            return 4 * math.prod(tensor["shape"])
        working = {e["function"]: e["arena_bytes"] + sum(map(size, e["inputs"] + e["outputs"])) for e in described["manifest"]["entries"]}
        states = 4 * (3 * (FEATURES * CLASSES + CLASSES) + 2)
        self.assertEqual({name: document["memory"][name] for name in working}, working)
        self.assertTrue(states <= document["memory"]["states"] < states + 256 * 8)
        entry = described["manifest"]["entries"][0]
        self.assertEqual([i["name"] for i in entry["inputs"]], ["x", "labels", "learning_rate"])
        self.assertEqual([o["name"] for o in entry["outputs"]], ["loss"])

    # Groups of a gradient share names, which may end like a kernel's.
    def test_artefacts_are_checked_without_a_run(self):
        self.succeeds("train", "linear.onnx", "--loss", "cross_entropy", "--optimizer", "adamw", "--clip-norm", "1", "-o", "l.tw")
        self.assertIn("checked: manifest, kernels, plan and graphs agree", self.succeeds("inspect", "l.tw", "--check").stdout)

    def test_the_loss_of_a_step(self):
        text = self.succeeds("train", "linear.onnx", "--loss", "mse", "--optimizer", "sgd", "--momentum", "0.9", "-o", "s.tw")
        self.assertIn("takes x, labels, learning_rate and gives loss", text.stderr + text.stdout)
        x = [(i * 13 % 7 - 3) / 4 for i in range(SAMPLES * FEATURES)]
        labels = [(i * 5 % 9 - 4) / 4 for i in range(SAMPLES * CLASSES)]
        self.write("x.npy", npy([SAMPLES, FEATURES], x))
        self.write("labels.npy", npy([SAMPLES, CLASSES], labels))
        self.write("rate.npy", npy([], [0.1]))
        self.succeeds("run", "s.tw", "--input", "x=@x.npy", "--input", "labels=@labels.npy",
                      "--input", "learning_rate=@rate.npy", "--output", "loss=@loss.npy")
        want = 0
        for n in range(SAMPLES):
            for k in range(CLASSES):
                y = [0.5, -0.25, 0.125][k] + sum(x[n * FEATURES + c] * WEIGHTS[c * CLASSES + k] for c in range(FEATURES))
                want += (y - labels[n * CLASSES + k]) ** 2 / (SAMPLES * CLASSES)
        got = npy_floats((self.folder / "loss.npy").read_bytes())
        self.assertTrue(math.isclose(got[0], want, rel_tol=1e-5), (got, want))

    def test_dropouts_take_a_seed(self):
        nodes = [ob.node("Dropout", ["x"], ["d"], "Dropout_0"), ob.node("MatMul", ["d", "w"], ["y"], "MatMul_0")]
        self.write("dropped.onnx", ob.model(nodes, [ob.value_info("x", [SAMPLES, FEATURES])], [ob.value_info("y", [SAMPLES, CLASSES])],
                                            [ob.tensor("w", [FEATURES, CLASSES], WEIGHTS)]))
        said = self.succeeds("train", "dropped.onnx", "--loss", "mse", "--optimizer", "sgd", "-o", "d.tw")
        self.assertIn("takes x, labels, learning_rate, seed and gives loss", said.stderr + said.stdout)
        self.write("x.npy", npy([SAMPLES, FEATURES], [1] * (SAMPLES * FEATURES)))
        self.write("labels.npy", npy([SAMPLES, CLASSES], [0] * (SAMPLES * CLASSES)))
        self.write("rate.npy", npy([], [0]))
        losses = []
        for seed in (3, 3, 4):
            self.write("seed.npy", npy([], [seed], "<i8"))
            self.succeeds("run", "d.tw", "--input", "x=@x.npy", "--input", "labels=@labels.npy", "--input", "learning_rate=@rate.npy",
                          "--input", "seed=@seed.npy", "--output", "loss=@loss.npy")
            losses.append((self.folder / "loss.npy").read_bytes())
        self.assertEqual(losses[0], losses[1])
        self.assertNotEqual(losses[0], losses[2])

    def states(self, *options):
        return json.loads(self.succeeds("train", "linear.onnx", "--loss", "mse", *options, "--json").stdout)["states"]

    def test_states_by_option(self):
        plain = ["w", "w.m", "w.v", "b", "b.m", "b.v", "step", "skipped_steps"]
        self.assertEqual(self.states("--no-skip"), plain[:-1])
        self.assertEqual(self.states("--optimizer", "lamb", "--clip-norm", "1", "--beta1", "0.8"), plain)
        self.assertEqual(self.states("--optimizer", "sgd", "--average", "0.9"), ["w", "w.average", "b", "b.average", "skipped_steps"])
        self.assertEqual(self.states("--optimizer", "sgd", "--accumulate", "4"), ["w", "w.sum", "b", "b.sum", "run_of_step", "skipped_steps"])
        self.assertEqual(self.states("--dtype", "f16", "--loss-scale", "1024"), ["loss_scale"] + plain[:-1] + ["good_steps", "skipped_steps"])
        self.assertEqual(self.states("--dtype", "bf16"), plain)

    def test_parameters_of_one_activation_are_one_state(self):
        """y = x q (x k)^T x v: whoever looks sees q, k and v, and inspect where they lie."""
        size = 16
        info = ob.value_info
        nodes = [ob.node("MatMul", ["x", w], [w + "x"], w + "_0") for w in ("q", "k", "v")]
        nodes += [ob.node("Transpose", ["kx"], ["kt"], "Transpose_0"), ob.node("MatMul", ["qx", "kt"], ["s"], "MatMul_0"),
                  ob.node("MatMul", ["s", "vx"], ["y"], "MatMul_1")]
        weights = {w: [((i * 7 + at) % 11 - 5) / 32 for i in range(size * size)] for at, w in enumerate("qkv")}
        self.write("linear.onnx", ob.model(nodes, [info("x", [4, size])], [info("y", [4, size])],
                                           [ob.tensor(w, [size, size], weights[w]) for w in "qkv"]))
        states = self.states("--optimizer", "adam")
        self.assertEqual(states, ["q", "k", "v", "q.m", "k.m", "v.m", "q.v", "k.v", "v.v", "step", "skipped_steps"])
        shown = self.succeeds("inspect", "linear.train.tw").stdout
        self.assertIn("  state  q+k+v: f32[48,16], becomes q+k+v.next\n    part q: f32[16,16], dims stored as [1,0]\n", shown)
        self.succeeds("verify", "linear.train.tw")
        outputs = json.loads(self.succeeds("run", "linear.train.tw", "--random", "seed=1", "--json", "--function", "grads").stdout)["outputs"]
        self.assertEqual({o["name"] for o in outputs}, {"loss", "q.grad", "k.grad", "v.grad"})
        apart = self.states("--optimizer", "adam", "--disable-pass", "merge-products")
        self.assertEqual(sorted(apart), sorted(states))
        self.assertNotIn("part", self.succeeds("inspect", "linear.train.tw").stdout)

    def run_step(self, x, x_shape, labels, labels_shape, rate):
        self.write("x.npy", npy(x_shape, x))
        self.write("labels.npy", npy(labels_shape, labels))
        self.write("rate.npy", npy([], [rate]))
        return ["run", "linear.train.tw", "--input", "x=@x.npy", "--input", "labels=@labels.npy", "--input",
                "learning_rate=@rate.npy", "--output", "loss=@loss.npy"]

    def loss(self, *inputs):
        self.succeeds(*self.run_step(*inputs))
        return npy_floats((self.folder / "loss.npy").read_bytes())[0]

    def test_inputs_that_are_wrong(self):
        self.succeeds("train", "linear.onnx", "--loss", "mse")
        x, labels = [0.5] * (SAMPLES * FEATURES), [0.25] * (SAMPLES * CLASSES)
        shapes = [SAMPLES, FEATURES], [SAMPLES, CLASSES]
        self.assertTrue(math.isfinite(self.loss(x, shapes[0], labels, shapes[1], 0)))
        self.assertTrue(math.isnan(self.loss([math.nan] + x[1:], shapes[0], labels, shapes[1], 0.1)))
        self.assertTrue(math.isnan(self.loss(x, shapes[0], labels, shapes[1], math.inf)))
        few = self.run_step(x, shapes[0], labels[:-CLASSES], [SAMPLES - 1, CLASSES], 0.1)
        self.fails(USAGE, few, "labels", f"[{SAMPLES},{CLASSES}]")

    def test_labels_that_are_no_classes(self):
        self.succeeds("train", "linear.onnx", "--label-smoothing", "0.1", "--ignore-index", "-100")
        x = [0.5] * (SAMPLES * FEATURES)
        step = self.run_step(x, [SAMPLES, FEATURES], [0.0] * SAMPLES, [SAMPLES], 0.1)
        self.fails(USAGE, step, "labels", "i64")
        for wrong in (CLASSES, -1):
            self.write("labels.npy", npy([SAMPLES], [0, 1, wrong, -100, 2], "<i8"))
            self.fails(USAGE, step, "an index is out of range")
        self.write("labels.npy", npy([SAMPLES], [0, 1, 2, -100, 2], "<i8"))
        self.succeeds(*step)

    def test_an_empty_batch(self):
        self.write("dynamic.onnx", linear(batch="n"))
        self.fails(USAGE, ["train", "dynamic.onnx", "--dim", "n=0", "--loss", "mse"], "--dim n=0", "1 or more")

    def test_functions(self):
        self.succeeds("train", "linear.onnx", "--loss", "mse", "--optimizer", "adam", "-o", "f.tw")
        shown = self.succeeds("inspect", "f.tw").stdout
        for line in ("entry step for", "entry grads for", "entry eval for", "output w.grad", "output y"):
            self.assertIn(line, shown)

        def outputs(*words):
            document = json.loads(self.succeeds("run", "f.tw", "--random", "seed=1", "--json", *words).stdout)
            return {o["name"]: o["mean"] for o in document["outputs"]}
        grads, evaluated = outputs("--function", "grads"), outputs("--function", "eval")
        self.assertEqual(list(grads), ["loss", "w.grad", "b.grad"])
        self.assertEqual(list(evaluated), ["y", "loss"])
        self.assertTrue(math.isclose(grads["loss"], evaluated["loss"], rel_tol=1e-5))
        self.fails(USAGE, ["run", "f.tw", "--random", "seed=1", "--function", "evaluate"], "evaluate", "step, grads, eval")
        self.fails(USAGE, ["run", "f.tw", "--random", "seed=1", "--entry", "eval"], "--function")
        document = json.loads(self.succeeds("verify", "f.tw", "--json").stdout)
        self.assertEqual([e["entry"] for e in document["entries"]], ["step", "grads", "eval"])
        document = json.loads(self.succeeds("verify", "f.tw", "--json", "--function", "eval").stdout)
        self.assertEqual([e["entry"] for e in document["entries"]], ["eval"])
        self.fails(MODEL, ["refit", "f.tw", "--weights", "linear.onnx", "-o", "g.tw"], "states")

    def deep(self, layers=8, size=32, samples=128):
        """x [samples, size] through layers of a product, a sigmoid and a softmax."""
        nodes, weights, x = [], [], "x"
        for k in range(layers):
            weights.append(ob.tensor(f"w{k}", [size, size], [((i * 37 + k * 11) % 101 - 50) / 100 for i in range(size * size)]))
            nodes += [ob.node("MatMul", [x, f"w{k}"], [f"p{k}"], f"MatMul_{k}"), ob.node("Sigmoid", [f"p{k}"], [f"s{k}"], f"Sigmoid_{k}"),
                      ob.node("Softmax", [f"s{k}"], ["y" if k == layers - 1 else f"y{k}"], f"Softmax_{k}")]
            x = f"y{k}"
        return ob.model(nodes, [ob.value_info("x", [samples, size])], [ob.value_info("y", [samples, size])], weights)

    def test_a_memory_limit(self):
        self.write("deep.onnx", self.deep())

        def train(*words):
            done = json.loads(self.succeeds("train", "deep.onnx", "--loss", "mse", "--optimizer", "sgd", "-o", "d.tw", "--json", *words).stdout)
            ran = json.loads(self.succeeds("run", "d.tw", "--function", "grads", "--random", "seed=1", "--json").stdout)
            return done, {o["name"]: (o["min"], o["mean"], o["max"]) for o in ran["outputs"]}
        kept, want = train()
        self.assertEqual((kept["recomputed"]["values"], kept["recomputed"]["more_flop"]), (0, 0))
        self.assertEqual(train("--memory-limit", "1GB")[0]["recomputed"]["values"], 0)
        before, products = kept["memory"]["peak"], []
        for share in (0.85, 0.68):
            limit = int(before * share)
            document, got = train("--memory-limit", str(limit))
            self.assertLessEqual(document["memory"]["peak"], limit)
            self.assertGreater(document["recomputed"]["values"], 0)
            products.append(document["recomputed"]["more_flop"])
            for name, numbers in want.items():
                for a, b in zip(numbers, got[name]):
                    self.assertTrue(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-7), (name, a, b))
        self.assertLessEqual(products[0], products[1])
        self.fails(EXHAUSTED, ["train", "deep.onnx", "--loss", "mse", "--memory-limit", "1K"], "--memory-limit", "smaller batch")

    def test_functions_of_several_shapes(self):
        nodes = [ob.node("MatMul", ["x", "w"], ["y"], "MatMul_0")]
        self.write("open.onnx", ob.model(nodes, [ob.value_info("x", ["n", FEATURES])], [ob.value_info("y", ["n", CLASSES])],
                                         [ob.tensor("w", [FEATURES, CLASSES], WEIGHTS)]))
        document = json.loads(self.succeeds("train", "open.onnx", "--loss", "mse", "--dim", "n=2,6", "-o", "o.tw", "--json").stdout)
        self.assertEqual(document["functions"], ["step", "grads", "eval"])
        described = json.loads(self.succeeds("inspect", "o.tw", "--json").stdout)
        self.assertEqual([e["function"] for e in described["manifest"]["entries"]],
                         ["step", "step", "grads", "grads", "eval", "eval"])
        self.write("x.npy", npy([6, FEATURES], [0.5] * 6 * FEATURES))
        ran = json.loads(self.succeeds("run", "o.tw", "--function", "eval", "--input", "x=@x.npy", "--random", "seed=0", "--json").stdout)
        self.assertTrue(ran["entry"].startswith("eval x:6x4"), ran["entry"])

    def test_what_is_refused(self):
        self.fails(USAGE, ["train", "linear.onnx", "--momentum", "0.9"], "--momentum", "sgd")
        self.fails(USAGE, ["train", "linear.onnx", "--loss-scale", "8"], "--loss-scale", "--dtype f16")
        self.fails(USAGE, ["train", "linear.onnx", "--dtype", "f16", "--no-skip"], "--no-skip", "bf16")
        self.fails(USAGE, ["train", "linear.onnx", "--no-decay", "b"], "--no-decay", "--weight-decay")
        self.fails(USAGE, ["train", "linear.onnx", "--loss", "mse", "--ignore-index", "3"], "--ignore-index", "cross_entropy")
        self.fails(USAGE, ["train", "linear.onnx", "--average", "1"], "--average")
        self.fails(USAGE, ["train", "linear.onnx", "--accumulate", "0"], "--accumulate")
        self.fails(USAGE, ["train", "linear.onnx", "--clip-norm", "-1"], "--clip-norm")
        self.fails(USAGE, ["train", "linear.onnx", "--optimizer", "sgd", "--beta2", "0.5"], "--beta2", "adam")
        self.fails(USAGE, ["train", "linear.onnx", "--loss", "hinge"], "cross_entropy")
        self.fails(MODEL, ["train", "linear.onnx", "--train", "layers.*"], "layers.*", "w, b")
        self.fails(MODEL, ["train", "linear.onnx", "--loss", "output"], "one element", "y")


class ExportWeights(Case):
    B = [1.5, 2.5, -3.5]

    def setUp(self):
        super().setUp()
        self.write("linear.onnx", linear())
        self.w = [x + 1 for x in WEIGHTS]
        self.write("state.safetensors", safetensors({"w": ([FEATURES, CLASSES], self.w), "w.m": ([FEATURES, CLASSES], WEIGHTS),
                                                     "b": ([CLASSES], self.B), "step": ([], [7])}))

    def test_the_model_with_other_weights(self):
        words = ["export-weights", "linear.onnx", "--state", "state.safetensors", "-o", "new.onnx"]
        document = json.loads(self.succeeds(*words, "--json").stdout)
        self.assertEqual((document["schema"], document["replaced"], document["ignored"]),
                         ("tilewright.export_weights.v1", ["b", "w"], ["step", "w.m"]))
        self.assertIn("w.m", self.succeeds(*words).stdout)
        x = [(i * 13 % 7 - 3) / 4 for i in range(SAMPLES * FEATURES)]
        self.write("x.npy", npy([SAMPLES, FEATURES], x))
        self.succeeds("run", "new.onnx", "--input", "x=@x.npy", "--output", "y=@y.npy")
        got = npy_floats((self.folder / "y.npy").read_bytes())
        for n in range(SAMPLES):
            for k in range(CLASSES):
                want = self.B[k] + sum(x[n * FEATURES + c] * self.w[c * CLASSES + k] for c in range(FEATURES))
                self.assertTrue(math.isclose(got[n * CLASSES + k], want, rel_tol=1e-5, abs_tol=1e-5))

    def test_parameters_that_were_written_once(self):
        """torch writes equal parameters once, and the others as Identity."""
        nodes = [ob.node("Identity", ["b"], ["c"], "Identity_0"), ob.node("MatMul", ["x", "w"], ["p"], "MatMul_0"),
                 ob.node("Add", ["p", "b"], ["s"], "Add_0"), ob.node("Mul", ["s", "c"], ["y"], "Mul_0")]
        self.write("once.onnx", ob.model(nodes, [ob.value_info("x", [SAMPLES, FEATURES])], [ob.value_info("y", [SAMPLES, CLASSES])],
                                         [ob.tensor("w", [FEATURES, CLASSES], WEIGHTS), ob.tensor("b", [CLASSES], [1] * CLASSES)]))
        document = json.loads(self.succeeds("train", "once.onnx", "--loss", "mse", "--optimizer", "sgd", "--json").stdout)
        self.assertEqual(document["states"], ["w", "b", "c", "skipped_steps"])
        self.write("s.safetensors", safetensors({"b": ([CLASSES], self.B)}))
        self.succeeds("export-weights", "once.onnx", "--state", "s.safetensors", "-o", "new.onnx")
        self.write("x.npy", npy([SAMPLES, FEATURES], [0] * SAMPLES * FEATURES))
        self.succeeds("run", "new.onnx", "--input", "x=@x.npy", "--output", "y=@y.npy")
        self.assertEqual(npy_floats((self.folder / "y.npy").read_bytes())[:CLASSES], self.B, "c stayed 1")

    def test_what_is_refused(self):
        def words(state="state.safetensors", output="new.onnx", model="linear.onnx"):
            return ["export-weights", model, "--state", state, "-o", output]
        self.fails(USAGE, ["export-weights", "linear.onnx", "-o", "new.onnx"], "--state")
        self.fails(USAGE, words(output="new.tw"), ".onnx")
        self.fails(USAGE, words(output="linear.onnx"), "overwritten")
        self.fails(USAGE, words(state="nowhere.safetensors"), "nowhere.safetensors")
        self.write("wrong.safetensors", safetensors({"w": ([CLASSES, FEATURES], self.w), "b": ([1], [1])}))
        self.fails(USAGE, words(state="wrong.safetensors"), "'w' is f32[3,4], the model has f32[4,3]", "'b' is f32[1]")
        self.write("other.safetensors", safetensors({"step": ([], [7])}))
        self.fails(USAGE, words(state="other.safetensors"), "none of its tensors", "step")
        self.assertFalse((self.folder / "new.onnx").exists())


if __name__ == "__main__":
    unittest.main()
