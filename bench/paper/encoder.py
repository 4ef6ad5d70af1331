"""The layer as an ONNX graph for training: multi-head attention and two linear layers with ReLU, each with dropout, a
residual connection and a layer norm behind it, all with biases.

The layer's input is a parameter, so that a training computes its gradient, too, and the loss is sum(y dy) with an input dy:
the gradient of y is dy. Nodes are called ROW.WHAT; a gradient's are called after those that it is of.
"""
import dataclasses

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 9
DROPOUT = 0.1


@dataclasses.dataclass(frozen=True)
class Sizes:
    batch: int = 8
    tokens: int = 512
    width: int = 1024
    heads: int = 16
    hidden: int = 4096

    @property
    def size(self):
        return self.width // self.heads


SMALL = Sizes(2, 32, 64, 4, 256)


class Layer:
    def __init__(self, sizes, ratio=DROPOUT, seed=0):
        self.sizes, self._ratio = sizes, ratio
        self._random, self._nodes, self._tensors = np.random.default_rng(seed), [], []

    def _op(self, kind, name, *inputs, **attributes):
        self._nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def _constant(self, name, value):
        return self._op("Constant", name, value=numpy_helper.from_array(np.asarray(value)))

    def _parameter(self, name, array):
        self._tensors.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def _normal(self, name, *shape, scale):
        return self._parameter(name, self._random.standard_normal(shape) * scale)

    def _linear(self, row, x, columns_in, columns):
        product = self._op("MatMul", f"{row}.product", x,
                           self._normal(f"{row}.weight", columns_in, columns, scale=columns_in**-0.5))
        return self._op("Add", f"{row}.add", product, self._normal(f"{row}.bias", columns, scale=0.02))

    def _dropout(self, name, x):
        if self._ratio == 0:
            return x
        return self._op("Dropout", name, x, self._constant(f"{name}_ratio", np.float32(self._ratio)),
                        self._constant(f"{name}_trains", np.bool_(True)))

    def _norm(self, name, x):
        """With statistics as results, which the gradient reads then."""
        scale = self._parameter(f"{name}.scale", np.ones(self.sizes.width))
        shift = self._parameter(f"{name}.shift", np.zeros(self.sizes.width))
        self._nodes.append(helper.make_node("LayerNormalization", [x, scale, shift],
                                            [name, f"{name}.mean", f"{name}.inverse_deviation"], name=name, axis=-1))
        return name

    def _heads(self, x, name, perm):
        s = self.sizes
        split = self._op("Reshape", f"{name}.split", x,
                         self._constant(f"{name}.heads", np.array([s.batch, s.tokens, s.heads, s.size], np.int64)))
        return self._op("Transpose", f"{name}.heads_first", split, perm=perm)

    def attention(self, x):
        s = self.sizes
        q, k, v = (self._linear(name, x, s.width, s.width) for name in ("q", "k", "v"))
        q, k, v = self._heads(q, "q", [0, 2, 1, 3]), self._heads(k, "k", [0, 2, 3, 1]), self._heads(v, "v", [0, 2, 1, 3])
        scores = self._op("MatMul", "scores", q, k)
        scaled = self._op("Mul", "softmax.scale", scores, self._constant("softmax.factor", np.float32(s.size**-0.5)))
        alpha = self._dropout("softmax.dropout", self._op("Softmax", "softmax.softmax", scaled, axis=-1))
        gamma = self._op("Transpose", "gamma.tokens_first", self._op("MatMul", "gamma", alpha, v), perm=[0, 2, 1, 3])
        joined = self._op("Reshape", "gamma.joined", gamma,
                          self._constant("gamma.shape", np.array([s.batch, s.tokens, s.width], np.int64)))
        return self._linear("out", joined, s.width, s.width)

    def block(self, x, y, number):
        """Behind attention and behind the linear layers."""
        return self._norm(f"norm{number}", self._op("Add", f"residual{number}", self._dropout(f"dropout{number}", y), x))

    def build(self, x):
        s = self.sizes
        y = self.block(x, self.attention(x), 1)
        hidden = self._dropout("dropout_hidden", self._op("Relu", "relu", self._linear("linear1", y, s.width, s.hidden)))
        return self.block(y, self._linear("linear2", hidden, s.hidden, s.width), 2)

    def model(self):
        s = self.sizes
        shape = [s.batch, s.tokens, s.width]
        y = self.build(self._normal("x", *shape, scale=1))
        self._op("ReduceSum", "loss", self._op("Mul", "loss.product", y, "dy"), keepdims=0)
        graph = helper.make_graph(self._nodes, "encoder", [helper.make_tensor_value_info("dy", TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], self._tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
