"""BERT encoders (Devlin et al. 2018; TinyBERT: Jiao et al. 2020; BERT-tiny: Turc et al. 2019), as torch exports them.

Linear layers are MatMul with weights [in, out] and Add, GELU is in erf form, the mask is additive (-1e4), and layer
norm is either the LayerNormalization operator of opset 17 ("fused") or its arithmetic ("decomposed").
With a dynamic batch the shapes of Reshape are computed by Shape, Gather, Unsqueeze and Concat.
"""
import math

import numpy as np
from onnx import TensorProto

from .builder import Builder

# layers, hidden, heads, intermediate
BERTS = {"bert_base": (12, 768, 12, 3072), "tinybert": (4, 312, 12, 1200), "bert_tiny": (2, 128, 2, 512)}
POSITIONS, TOKENS, VOCABULARY = 512, 128, 30522
SMALL = {"layers": 2, "tokens": 11, "vocabulary": 97, "divisor": 6}
EPSILON = 1e-12


class Bert(Builder):
    def __init__(self, name, seed, batch, dynamic, small, layernorm):
        super().__init__(name, seed, batch, dynamic)
        layers, hidden, self.heads, inner = BERTS[name]
        self.fused_layernorm = layernorm == "fused"
        self.layers = SMALL["layers"] if small else layers
        self.tokens = SMALL["tokens"] if small else TOKENS
        self.vocabulary = SMALL["vocabulary"] if small else VOCABULARY
        divisor = SMALL["divisor"] if small else 1
        self.head = hidden // self.heads // divisor
        self.hidden, self.inner = self.head * self.heads, inner // divisor

    def linear(self, x, name, cin, cout):
        w = self.normal(f"{name}.weight", (cin, cout), round(1.0 / math.sqrt(cin), 8))
        y = self.node("MatMul", [x, w])
        return self.node("Add", [self.normal(f"{name}.bias", (cout,), 0.1), y])

    def layer_norm(self, x, name):
        scale = self.uniform(f"{name}.weight", (self.hidden,), 0.8, 1.2)
        bias = self.uniform(f"{name}.bias", (self.hidden,), -0.1, 0.1)
        if self.fused_layernorm:
            return self.node("LayerNormalization", [x, scale, bias], axis=-1, epsilon=EPSILON)
        centred = self.node("Sub", [x, self.node("ReduceMean", [x], axes=[-1], keepdims=1)])
        square = self.node("Pow", [centred, self.constant(np.float32(2))])
        var = self.node("ReduceMean", [square], axes=[-1], keepdims=1)
        std = self.node("Sqrt", [self.node("Add", [var, self.constant(np.float32(EPSILON))])])
        return self.node("Add", [self.node("Mul", [self.node("Div", [centred, std]), scale]), bias])

    def gelu(self, x):
        erf = self.node("Erf", [self.node("Div", [x, self.constant(np.float32(math.sqrt(2.0)))])])
        y = self.node("Mul", [x, self.node("Add", [erf, self.constant(np.float32(1))])])
        return self.node("Mul", [y, self.constant(np.float32(0.5))])

    def reshape(self, x, dims):
        """Reshapes to [batch, *dims]; the batch is read from x when it is dynamic."""
        if not self.dynamic:
            return self.node("Reshape", [x, self.constant(np.array([self.batch, *dims], np.int64))])
        batch = self.node("Gather", [self.node("Shape", [x]), self.constant(np.int64(0))], axis=0)
        parts = [batch] + [self.constant(np.int64(d)) for d in dims]
        axis = self.constant(np.array([0], np.int64))
        shape = self.node("Concat", [self.node("Unsqueeze", [p, axis]) for p in parts], axis=0)
        return self.node("Reshape", [x, shape])

    def attention(self, x, name, mask):
        split = lambda key: self.reshape(self.linear(x, f"{name}.{key}", self.hidden, self.hidden),
                                         [self.tokens, self.heads, self.head])
        q = self.node("Transpose", [split("q")], perm=[0, 2, 1, 3])
        k = self.node("Transpose", [split("k")], perm=[0, 2, 3, 1])
        v = self.node("Transpose", [split("v")], perm=[0, 2, 1, 3])
        scores = self.node("Div", [self.node("MatMul", [q, k]), self.constant(np.float32(math.sqrt(self.head)))])
        p = self.node("Softmax", [self.node("Add", [scores, mask])], axis=-1)
        y = self.node("Transpose", [self.node("MatMul", [p, v])], perm=[0, 2, 1, 3])
        return self.linear(self.reshape(y, [self.tokens, self.hidden]), f"{name}.o", self.hidden, self.hidden)

    def embeddings(self, ids, types):
        table = lambda key, rows: self.normal(f"{key}.weight", (rows, self.hidden), 0.5)
        word = self.node("Gather", [table("w", self.vocabulary), ids], axis=0)
        kind = self.node("Gather", [table("t", 2), types], axis=0)
        positions = self.weight("pos", np.arange(POSITIONS, dtype=np.int64)[None])
        ends = [self.constant(np.array([n], np.int64)) for n in (0, self.tokens, 1, 1)]
        place = self.node("Gather", [table("p", POSITIONS), self.node("Slice", [positions, *ends])], axis=0)
        return self.layer_norm(self.node("Add", [self.node("Add", [word, kind]), place]), "n")

    def additive_mask(self, mask):
        """(1 - mask[batch, 1, 1, token]) * -1e4 in f32."""
        for axis in (1, 2):
            mask = self.node("Unsqueeze", [mask, self.constant(np.array([axis], np.int64))])
        keep = self.node("Cast", [mask], to=TensorProto.FLOAT)
        drop = self.node("Sub", [self.constant(np.float32(1)), keep])
        return self.node("Mul", [drop, self.constant(np.float32(-1e4))])


def bert(name, **options):
    b = Bert(name, **options)
    ids = b.input("input_ids", [b.tokens], "i64", b.vocabulary)
    types = b.input("token_type_ids", [b.tokens], "i64", 2)
    mask = b.additive_mask(b.input("attention_mask", [b.tokens], "i64", 0))
    x = b.embeddings(ids, types)
    for i in range(b.layers):
        name = f"layers.{i}"
        x = b.layer_norm(b.node("Add", [x, b.attention(x, name, mask)]), f"{name}.n1")
        y = b.linear(b.gelu(b.linear(x, f"{name}.f1", b.hidden, b.inner)), f"{name}.f2", b.inner, b.hidden)
        x = b.layer_norm(b.node("Add", [x, y]), f"{name}.n2")
    b.output(x, [b.tokens, b.hidden], "last_hidden_state")
    return b


NETWORKS = dict.fromkeys(BERTS, bert)
