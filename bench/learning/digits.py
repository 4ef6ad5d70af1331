"""Handwritten digits, 8 x 8 pixels, that the package scikit-learn ships: a small convolutional network.

1,437 of the 1,797 images are learnt from, 360 are held out.
"""
import numpy as np
from onnx import TensorProto

from .graphs import Net, uniform

BATCH, HELD_OUT, CLASSES = 32, 360, 10
CHANNELS, HIDDEN = (1, 16, 32), 64


class Task:
    name, loss, decay, batch = "digits", "cross_entropy", 0.01, BATCH

    def __init__(self, dropout=0.25):
        from sklearn.datasets import load_digits
        data = load_digits()
        order = np.random.default_rng(7).permutation(len(data.target))
        images = (data.images / 16).astype(np.float32)[order, None]
        labels = data.target.astype(np.int64)[order]
        self.held_out = images[:HELD_OUT], labels[:HELD_OUT]
        self.images, self.labels = images[HELD_OUT:], labels[HELD_OUT:]
        self.dropout, self.steps = dropout, 900

    def rate(self, step):
        return 2e-3 * 0.5 * (1 + np.cos(np.pi * step / self.steps))

    def weights(self, seed):
        random, made = np.random.default_rng([seed, 1]), {}
        for layer in (0, 1):
            fan_in = CHANNELS[layer] * 9
            made[f"conv{layer}.weight"] = uniform(random, (CHANNELS[layer + 1], CHANNELS[layer], 3, 3), fan_in)
            made[f"conv{layer}.bias"] = uniform(random, CHANNELS[layer + 1], fan_in)
        for name, rows, columns in (("hidden", CHANNELS[2] * 16, HIDDEN), ("out", HIDDEN, CLASSES)):
            made[f"{name}.weight"] = uniform(random, (rows, columns), rows)
            made[f"{name}.bias"] = uniform(random, columns, rows)
        return made

    def model(self, weights, batch, training):
        net, ratio = Net(weights), self.dropout if training else 0
        x = "x"
        for layer in (0, 1):
            x = net.op("Conv", x, f"conv{layer}.weight", f"conv{layer}.bias", pads=[1, 1, 1, 1])
            x = net.op("Relu", x)
        x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        x = net.dropout(net.reshape(x, batch, CHANNELS[2] * 16), ratio)
        x = net.dropout(net.op("Relu", net.linear(x, "hidden")), ratio)
        return net.model(self.name, {"x": (TensorProto.FLOAT, [batch, 1, 8, 8])}, net.linear(x, "out"), [batch, CLASSES])

    def torch_model(self, p, x, dropout):
        """The same from torch tensors; `dropout` is a function."""
        from torch.nn import functional as F
        for layer in (0, 1):
            x = F.relu(F.conv2d(x, p[f"conv{layer}.weight"], p[f"conv{layer}.bias"], padding=1))
        x = dropout(F.max_pool2d(x, 2).flatten(1))
        x = dropout(F.relu(x @ p["hidden.weight"] + p["hidden.bias"]))
        return x @ p["out.weight"] + p["out.bias"]

    def batch_of(self, seed, step):
        """Every image once in each epoch, in an order of its own; so a step's batch depends on its number alone."""
        each = len(self.images) // BATCH
        order = np.random.default_rng([seed, 2, step // each]).permutation(len(self.images))
        chosen = order[step % each * BATCH:][:BATCH]
        return {"x": self.images[chosen], "labels": self.labels[chosen]}

    def held_out_score(self, logits):
        """Share of held-out digits that are told right."""
        return float((logits.argmax(1) == self.held_out[1]).mean())
