"""The package tilewright-runtime, alone in its environment: no compiler, no numpy. usage: runtime_alone.py DENSE.tw

Loads a model of y = relu(x w) for x[1, 64], and runs it on a buffer.
"""
from __future__ import annotations

import importlib.util
import sys

import tilewright as tw


def main(path: str) -> None:
    assert importlib.util.find_spec("numpy") is None, "numpy is installed here: it would hide that it is needed"
    model = tw.load(path)
    x = memoryview(bytearray(64 * 4)).cast("f", (1, 64))
    y = model(x)
    assert isinstance(y, memoryview) and y.shape == (1, 64) and y.tolist() == [[0.0] * 64]
    binding = model.bind(x)
    binding.run()
    assert binding.outputs["y"].tolist() == [[0.0] * 64]
    assert tw.InferenceSession(path).get_inputs()[0].type == "tensor(float)"
    assert model.metadata.producer_name == "tests"
    for needs_compiler in (lambda: tw.compile("model.onnx"), model.explain, model.verify,
                           lambda: model.report("r.html")):
        try:
            needs_compiler()
        except tw.UsageError as error:
            assert "pip install tilewright" in str(error), error
        else:
            raise AssertionError("done without a compiler")
    assert "numpy" not in sys.modules
    print("tilewright-runtime alone: ok")


if __name__ == "__main__":
    main(sys.argv[1])
