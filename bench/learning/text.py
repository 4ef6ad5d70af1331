"""Characters of about a megabyte of Python's own library: a GPT of two layers that says which one comes next."""
import pathlib
import sysconfig

import numpy as np
from onnx import TensorProto

from .graphs import Net, uniform

BATCH, LENGTH, WIDTH, HEADS, LAYERS = 16, 64, 64, 4, 2
BYTES, HELD_OUT_BATCHES = 1_000_000, 8
SYMBOLS = "\n" + "".join(map(chr, range(32, 127)))  # all others read as a blank


def source_text(count=BYTES):
    """The library's modules one after the other, by name."""
    folder = pathlib.Path(sysconfig.get_path("stdlib"))
    text = ""
    for path in sorted(folder.glob("*.py")):
        text += path.read_text("utf-8", "replace")
        if len(text) >= count:
            break
    codes = {c: i for i, c in enumerate(SYMBOLS)}
    return np.array([codes.get(c, 1) for c in text[:count]], np.int64)


class Task:
    name, loss, decay, batch = "text", "cross_entropy", 0.01, BATCH

    def __init__(self, dropout=0.1):
        text = source_text()
        split = len(text) * 9 // 10
        self.text, rest = text[:split], text[split:]
        self.dropout, self.steps = dropout, 400
        at = np.random.default_rng(7).integers(0, len(rest) - LENGTH - 1, BATCH * HELD_OUT_BATCHES)
        self.held_out = windows(rest, at)

    def rate(self, step):
        return 3e-3 * min(1, (step + 1) / 40) * 0.5 * (1 + np.cos(np.pi * step / self.steps))

    def weights(self, seed):
        random, made = np.random.default_rng([seed, 1]), {}

        def normal(name, *shape):
            made[name] = (random.standard_normal(shape) * 0.02).astype(np.float32)

        def linear(name, rows, columns):
            made[f"{name}.weight"] = uniform(random, (rows, columns), rows)
            made[f"{name}.bias"] = np.zeros(columns, np.float32)
        normal("token", len(SYMBOLS), WIDTH)
        normal("place", LENGTH, WIDTH)
        for k in range(LAYERS):
            for norm in (f"{k}.norm", f"{k}.norm2"):
                made[f"{norm}.weight"], made[f"{norm}.bias"] = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
            linear(f"{k}.queries", WIDTH, WIDTH)
            linear(f"{k}.keys", WIDTH, WIDTH)
            linear(f"{k}.values", WIDTH, WIDTH)
            linear(f"{k}.mix", WIDTH, WIDTH)
            linear(f"{k}.up", WIDTH, 4 * WIDTH)
            linear(f"{k}.down", 4 * WIDTH, WIDTH)
        linear("out", WIDTH, len(SYMBOLS))
        return made

    def model(self, weights, batch, training):
        net, ratio = Net(weights), self.dropout if training else 0
        mask = net.constant(np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1))
        scale = net.constant(np.float32((WIDTH // HEADS) ** -0.5))
        x = net.dropout(net.op("Add", net.op("Gather", "token", "x"), "place"), ratio)

        def heads(x, name, order):
            split = net.reshape(net.linear(x, name), batch, LENGTH, HEADS, WIDTH // HEADS)
            return net.op("Transpose", split, perm=order)
        for k in range(LAYERS):
            h = net.op("LayerNormalization", x, f"{k}.norm.weight", f"{k}.norm.bias", axis=-1)
            q, v = heads(h, f"{k}.queries", [0, 2, 1, 3]), heads(h, f"{k}.values", [0, 2, 1, 3])
            scores = net.op("MatMul", q, heads(h, f"{k}.keys", [0, 2, 3, 1]))
            scores = net.op("Add", net.op("Mul", scores, scale), mask)
            shares = net.dropout(net.op("Softmax", scores, axis=-1), ratio)
            h = net.op("Transpose", net.op("MatMul", shares, v), perm=[0, 2, 1, 3])
            h = net.linear(net.reshape(h, batch, LENGTH, WIDTH), f"{k}.mix")
            x = net.op("Add", x, net.dropout(h, ratio))
            h = net.op("LayerNormalization", x, f"{k}.norm2.weight", f"{k}.norm2.bias", axis=-1)
            h = net.linear(net.op("Relu", net.linear(h, f"{k}.up")), f"{k}.down")
            x = net.op("Add", x, net.dropout(h, ratio))
        y = net.reshape(net.linear(x, "out"), batch * LENGTH, len(SYMBOLS))
        return net.model(self.name, {"x": (TensorProto.INT64, [batch, LENGTH])}, y, [batch * LENGTH, len(SYMBOLS)])

    def torch_model(self, p, x, dropout):
        import torch
        from torch.nn import functional as F
        mask = torch.triu(torch.full((LENGTH, LENGTH), -1e9), 1)

        def linear(x, name):
            return x @ p[f"{name}.weight"] + p[f"{name}.bias"]

        def norm(x, name):
            return F.layer_norm(x, (WIDTH,), p[f"{name}.weight"], p[f"{name}.bias"])

        def heads(x, name):
            return linear(x, name).view(len(x), LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)
        x = dropout(p["token"][x] + p["place"])
        for k in range(LAYERS):
            h = norm(x, f"{k}.norm")
            q, keys, v = (heads(h, f"{k}.{part}") for part in ("queries", "keys", "values"))
            scores = q @ keys.transpose(2, 3) * (WIDTH // HEADS) ** -0.5 + mask
            h = (dropout(scores.softmax(-1)) @ v).transpose(1, 2).reshape(len(x), LENGTH, WIDTH)
            x = x + dropout(linear(h, f"{k}.mix"))
            h = linear(F.relu(linear(norm(x, f"{k}.norm2"), f"{k}.up")), f"{k}.down")
            x = x + dropout(h)
        return linear(x, "out").flatten(0, 1)

    def batch_of(self, seed, step):
        at = np.random.default_rng([seed, 2, step]).integers(0, len(self.text) - LENGTH - 1, BATCH)
        x, labels = windows(self.text, at)
        return {"x": x, "labels": labels}

    def held_out_score(self, logits):
        """Bits a character, of characters that were held out: less is better."""
        highest = logits.max(1, keepdims=True)
        losses = np.log(np.exp(logits - highest).sum(1)) + highest[:, 0] - logits[np.arange(len(logits)), self.held_out[1]]
        return float(losses.mean() / np.log(2))


def windows(text, starts):
    """(characters [n, length], those behind them [n length])."""
    rows = np.stack([text[s:s + LENGTH + 1] for s in starts])
    return rows[:, :-1], rows[:, 1:].reshape(-1)
