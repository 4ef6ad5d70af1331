"""ONNX graphs of small networks for training, node by node, with their weights as initializers."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 9


class Net:
    """Nodes in order; values are names. Weights are those of `weights` (name: array)."""

    def __init__(self, weights):
        self._weights, self._nodes = weights, []

    def op(self, kind, *inputs, **attributes):
        name = f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, value):
        """A node: what is an initializer is trained."""
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(value)))

    def linear(self, x, name):
        return self.op("Add", self.op("MatMul", x, f"{name}.weight"), f"{name}.bias")

    def dropout(self, x, ratio):
        """As exporters write it in training mode."""
        if ratio == 0:
            return x
        return self.op("Dropout", x, self.constant(np.float32(ratio)), self.constant(np.bool_(True)))

    def reshape(self, x, *shape):
        return self.op("Reshape", x, self.constant(np.array(shape, np.int64)))

    def model(self, name, inputs, output, shape):
        """Bytes; `inputs` are {name: (ONNX type, shape)}."""
        tensors = [numpy_helper.from_array(a, n) for n, a in self._weights.items()]
        graph = helper.make_graph(
            [*self._nodes, helper.make_node("Identity", [output], ["y"], name="y")], name,
            [helper.make_tensor_value_info(n, *info) for n, info in inputs.items()],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], tensors)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString()


def uniform(random, shape, fan_in):
    """As torch begins weights of linear layers and convolutions."""
    return random.uniform(-1, 1, shape).astype(np.float32) / np.float32(np.sqrt(fan_in))
