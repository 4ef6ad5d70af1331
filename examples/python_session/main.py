"""A script that was written for onnxruntime: the import line is all that has changed."""
from __future__ import annotations

import os
import tempfile

import numpy as np
import onnx
import tilewright as ort  # was: import onnxruntime as ort
from onnx import TensorProto, helper


def make_model(path: str) -> None:
    """The mean of the values that a mask leaves, for texts of any length."""
    nodes = [helper.make_node("Mul", ["values", "mask"], ["kept"]),
             helper.make_node("ReduceSum", ["kept", "axis"], ["sum"], keepdims=0),
             helper.make_node("ReduceSum", ["mask", "axis"], ["count"], keepdims=0),
             helper.make_node("Div", ["sum", "count"], ["mean"])]
    shape = ["batch", "length"]
    graph = helper.make_graph(
        nodes, "mean", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("values", "mask")],
        [helper.make_tensor_value_info("mean", TensorProto.FLOAT, ["batch"])],
        [helper.make_tensor("axis", TensorProto.INT64, [1], [1])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mean.onnx")
        make_model(path)
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        print("inputs:", [(arg.name, arg.type, arg.shape) for arg in session.get_inputs()])
        for batch, length in ((1, 8), (2, 5), (1, 8)):  # compiled for each of the two combinations once
            values = np.arange(batch * length, dtype=np.float32).reshape(batch, length)
            mask = np.ones((batch, length), np.float32)
            mask[:, length // 2:] = 0
            (mean,) = session.run(["mean"], {"values": values, "mask": mask})
            print(f"{batch} x {length}: {mean}")


if __name__ == "__main__":
    main()
