"""Small ONNX models for the tests."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = Sequence[int | str]


def value(name: str, shape: Shape, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto],
          weights: dict[str, np.ndarray[Any, Any]] | None = None, **properties: str) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9, producer_name="tests")
    helper.set_model_props(made, properties)
    return made


def weights(rows: int, columns: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


def dense(size: int = 64, batch: int | str = 1) -> onnx.ModelProto:
    """y = relu(x w)"""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    return model(nodes, [value("x", [batch, size])], [value("y", [batch, size])], {"w": weights(size, size)})


def dense_expected(x: np.ndarray[Any, Any], size: int = 64) -> np.ndarray[Any, Any]:
    return np.maximum(x.astype(np.float64) @ weights(size, size), 0)


def two_by_two() -> onnx.ModelProto:
    """sum = a + b, greater = a > b"""
    nodes = [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Greater", ["a", "b"], ["greater"])]
    return model(nodes, [value("a", [2, 3]), value("b", [2, 3])],
                 [value("sum", [2, 3]), value("greater", [2, 3], TensorProto.BOOL)])


def lookup() -> onnx.ModelProto:
    """y = table[index]"""
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    return model([helper.make_node("Gather", ["table", "index"], ["y"])], [value("index", [3], TensorProto.INT64)],
                 [value("y", [3, 2])], {"table": table})


def counter() -> onnx.ModelProto:
    """total = before + x, for a state before=total"""
    nodes = [helper.make_node("Add", ["before", "x"], ["total"]), helper.make_node("Neg", ["total"], ["y"])]
    return model(nodes, [value("before", [2]), value("x", [2])], [value("total", [2]), value("y", [2])])


def bfloat16() -> onnx.ModelProto:
    """y = x + x in bfloat16"""
    return model([helper.make_node("Add", ["x", "x"], ["y"])], [value("x", [4], TensorProto.BFLOAT16)],
                 [value("y", [4], TensorProto.BFLOAT16)])


def convolutions(count: int, channels: int = 32, size: int = 28) -> onnx.ModelProto:
    """A chain of 3x3 convolutions of different sizes: several groups that are worth measuring."""
    nodes, arrays, previous = [], {}, "x"
    rng = np.random.default_rng(1)
    inside = channels
    for i in range(count):
        outside = channels + 8 * (i + 1)
        arrays[f"w{i}"] = (rng.standard_normal((outside, inside, 3, 3)) / 16).astype(np.float32)
        nodes.append(helper.make_node("Conv", [previous, f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        previous, inside = f"r{i}", outside
    return model(nodes, [value("x", [1, channels, size, size])], [value(previous, [1, inside, size, size])], arrays)

def linear(w: str = "w", b: str = "b") -> onnx.ModelProto:
    """y = x w + b, for training"""
    nodes = [helper.make_node("MatMul", ["x", w], ["a"]), helper.make_node("Add", ["a", b], ["y"])]
    return model(nodes, [value("x", [4, 3])], [value("y", [4, 2])],
                 {w: weights(3, 2), b: np.array([0.5, -0.25], np.float32)})
