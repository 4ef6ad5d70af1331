#!/usr/bin/env python3
"""quantized_test.py TILEWRIGHT: products and convolutions in QDQ against onnxruntime, which runs them node by node.

Scales are powers of two and biases multiples of them, so that nothing is rounded but by QuantizeLinear: outputs are equal.
`explain --why` must call each product narrow, and name what keeps the last model's float. Exit code 77 where onnx or
onnxruntime is missing.
"""
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"not run: {error}")
    sys.exit(77)

STEP = 0.0625
TYPES = {"u8": np.uint8, "s8": np.int8}


class Model:
    """Nodes one after the other; `quantized` puts QuantizeLinear and DequantizeLinear behind a value."""

    def __init__(self, seed, activations, zero):
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants = [], []
        self.zero = np.array(zero, TYPES[activations])

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def quantized(self, value):
        scale, zero = self.constant(np.float32(STEP)), self.constant(self.zero)
        return self.node("DequantizeLinear", self.node("QuantizeLinear", value, scale, zero), scale, zero)

    def weights(self, shape, kind, axis, zero):
        """Dequantized constants, with a scale for each index of `axis`, or one (None)."""
        info = np.iinfo(TYPES[kind])
        numbers = self.random.integers(info.min, info.max + 1, shape).astype(TYPES[kind])
        count = () if axis is None else (shape[axis],)
        scale = np.exp2(self.random.integers(-11, -8, count)).astype(np.float32)
        zeros = np.full(count, zero, TYPES[kind])
        attributes = {} if axis is None else {"axis": axis}
        return self.node("DequantizeLinear", *map(self.constant, (numbers, scale, zeros)), **attributes)

    def bias(self, count):
        return self.constant((self.random.integers(-16, 17, count) * STEP).astype(np.float32))

    def save(self, path, x_shape, output):
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, x_shape)
        y = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "quantized", [x], [y], self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def matrices(model, weights, per_channel, zero):
    """Attention without a softmax: products with weights and of two activations, with a gate and a residual."""
    axis = 1 if per_channel else None
    x = model.quantized("x")
    q = model.quantized(model.node("MatMul", x, model.weights((20, 24), weights, axis, zero)))
    bias = model.bias(24)
    k = model.quantized(model.node("Add", model.node("MatMul", x, model.weights((20, 24), weights, axis, zero)), bias))
    turned = model.quantized(model.node("Transpose", k, perm=[0, 2, 1]))
    scores = model.quantized(model.node("MatMul", q, turned))
    positive = model.quantized(model.node("Relu", scores))
    gated = model.quantized(model.node("Mul", scores, positive))
    return model.quantized(model.node("Add", model.node("MatMul", gated, k), q)), (2, 7, 20), 4


def images(model, weights, per_channel, zero):
    """A residual block with padding, strides and pooling; its windows are none of Winograd's algorithm."""
    axis = 0 if per_channel else None
    x = model.quantized("x")
    bias = model.bias(12)
    a = model.node("Conv", x, model.weights((12, 8, 3, 2), weights, axis, zero), bias, pads=[1, 0, 1, 1])
    a = model.quantized(model.node("Relu", a))
    b = model.quantized(model.node("Conv", a, model.weights((12, 12, 3, 2), weights, axis, zero), pads=[1, 0, 1, 1]))
    sum_ = model.quantized(model.node("Add", a, b))
    pool = model.quantized(model.node("MaxPool", sum_, kernel_shape=[2, 2], strides=[2, 2]))
    return model.quantized(model.node("Conv", pool, model.weights((5, 12, 1, 1), weights, axis, zero))), (2, 8, 6, 6), 3


def float_operand(model, weights, per_channel, zero):
    del per_channel
    x = model.quantized("x")
    y = model.node("MatMul", model.node("Tanh", x), model.weights((20, 24), weights, None, zero))
    return model.quantized(y), (2, 7, 20), 1


def run(*words):
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True).stdout


def check(tilewright, folder, build, case):
    activations, weights, zero, per_channel = case
    model = Model(3, activations, zero)
    output, shape, products = build(model, weights, per_channel, 0 if weights == "s8" else 121)
    path, artefact = folder / "m.onnx", folder / "m.tw"
    model.save(path, shape, output)
    x = np.random.default_rng(5).uniform(-4, 4, shape).astype(np.float32)
    np.save(folder / "x.npy", x)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": x})[0]
    assert len(np.unique(wanted)) > 4, f"{build.__name__} {case}: all outputs are alike"
    run(tilewright, "compile", path, "--no-measure", "-o", artefact)
    run(tilewright, "run", artefact, "--input", f"x=@{folder / 'x.npy'}", "--output", f"{output}=@{folder / 'y.npy'}")
    np.testing.assert_array_equal(np.load(folder / "y.npy"), wanted, f"{build.__name__} {case}")
    said = json.loads(run(tilewright, "explain", artefact, "--no-run", "--why", "--json"))["products"]
    return [p["rule"] for p in said], products


def main():
    tilewright = sys.argv[1]
    cases = [*itertools.product(["u8"], ["u8", "s8"], [0, 118], [False, True]),
             *itertools.product(["s8"], ["u8", "s8"], [0, -9], [False, True])]
    with tempfile.TemporaryDirectory() as name:
        for build in (matrices, images):
            for case in cases:
                rules, products = check(tilewright, pathlib.Path(name), build, case)
                assert rules == ["narrow"] * products, f"{build.__name__} {case}: {rules}"
        rules, _ = check(tilewright, pathlib.Path(name), float_operand, cases[0])
        assert rules == ["float-operand"], rules
    print(f"{2 * len(cases) + 1} models")
    return 0


if __name__ == "__main__":
    sys.exit(main())
