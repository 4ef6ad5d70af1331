#!/usr/bin/env python3
"""The verb train from outside: a training step as an artefact, and what it refuses.

  TILEWRIGHT=PATH python3 -m unittest train_test.Train
"""
import json
import math
import unittest

import onnx_bytes as ob
from command_test import MODEL, USAGE, Case, npy, npy_floats

SAMPLES, FEATURES, CLASSES = 5, 4, 3
WEIGHTS = [(i * 37 % 11 - 5) / 16 for i in range(FEATURES * CLASSES)]


def linear():
    nodes = [ob.node("MatMul", ["x", "w"], ["p"], "MatMul_0"), ob.node("Add", ["p", "b"], ["y"], "Add_0")]
    return ob.model(nodes, [ob.value_info("x", [SAMPLES, FEATURES])], [ob.value_info("y", [SAMPLES, CLASSES])],
                    [ob.tensor("w", [FEATURES, CLASSES], WEIGHTS), ob.tensor("b", [CLASSES], [0.5, -0.25, 0.125])])


class Train(Case):
    def setUp(self):
        super().setUp()
        self.write("linear.onnx", linear())

    def test_a_step(self):
        document = json.loads(self.succeeds("train", "linear.onnx", "--loss", "mse", "--optimizer", "adam", "--json").stdout)
        self.assertEqual((document["schema"], document["output"]), ("tilewright.train.v1", "linear.train.tw"))
        self.assertEqual((document["parameters"], document["elements"]), (2, FEATURES * CLASSES + CLASSES))
        self.assertEqual(document["states"], ["w", "w.m", "w.v", "b", "b.m", "b.v", "step"])
        described = json.loads(self.succeeds("inspect", "linear.train.tw", "--json").stdout)
        entry = described["manifest"]["entries"][0]
        self.assertEqual([i["name"] for i in entry["inputs"]], ["x", "labels", "learning_rate"])
        self.assertEqual([o["name"] for o in entry["outputs"]], ["loss"])

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

    def test_what_is_refused(self):
        self.fails(USAGE, ["train", "linear.onnx", "--momentum", "0.9"], "--momentum", "sgd")
        self.fails(USAGE, ["train", "linear.onnx", "--dtype", "f16"], "f16", "bf16")
        self.fails(USAGE, ["train", "linear.onnx", "--loss", "hinge"], "cross_entropy")
        self.fails(MODEL, ["train", "linear.onnx", "--train", "layers.*"], "layers.*", "w, b")
        self.fails(MODEL, ["train", "linear.onnx", "--loss", "output"], "one element", "y")


if __name__ == "__main__":
    unittest.main()
