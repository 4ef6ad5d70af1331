"""Compiles an ONNX model, runs it, and shows where its time goes.

    python main.py [MODEL.onnx]

Without a model it makes a small one, for which it needs the package onnx.
"""
from __future__ import annotations

import os
import sys
import tempfile

import numpy as np
import tilewright as tw


def make_model(folder: str) -> str:
    """y = softmax(x w)"""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    w = np.random.default_rng(0).standard_normal((256, 10)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Softmax", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "classifier", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 256])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 10])],
                              [numpy_helper.from_array(w, "w")])
    path = os.path.join(folder, "classifier.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = tw.compile(sys.argv[1] if len(sys.argv) > 1 else make_model(folder))
        print(model)
        random = np.random.default_rng(1)
        feeds = {info.name: random.random(info.shape).astype(info.dtype) for info in model.inputs.values()}
        outputs = model.run_named(feeds)
        for name, array in outputs.items():
            print(f"{name}: {array.dtype}{list(array.shape)}, mean {array.mean():.4f}")

        # The same in arrays that stay: a run neither copies nor allocates.
        binding = model.bind_named(feeds, {})
        binding.run()
        print(f"median of 100 runs: {np.median(binding.measure(100)) / 1e3:.1f} us")

        with model.profile() as profile:
            model.run_named(feeds)
        for step in sorted(profile.steps, key=lambda step: -step.microseconds)[:3]:
            print(f"  {step.microseconds:8.1f} us  {step.name}")

        model.save(os.path.join(folder, "model.tw"))
        again = tw.load(os.path.join(folder, "model.tw"), threads=1)
        first = next(iter(outputs))
        print("loaded again, same bits:", np.array_equal(again.run_named(feeds)[first], outputs[first]))


if __name__ == "__main__":
    main()
