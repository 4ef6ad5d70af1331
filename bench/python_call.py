#!/usr/bin/env python3
"""What a call from Python costs beyond the runtime, for a model that computes next to nothing: y = x w, 1 x 64 x 64.

    python bench/python_call.py [--rounds N] [--limit US]

Needs the packages tilewright, numpy and onnx; times onnxruntime, too, where it is installed. Each line is the fastest
of N rounds of 2,000 calls, one kind after the other in each round, so that a busy machine meets all of them alike. The
first line is the runtime's own time of a run (TwApi.measure_entry): no C program can be faster, so that what the others
have beyond it is at most what Python costs. Exit code 1 where a bound call has more than the limit beyond it.
"""
from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

CALLS = 2000


def product(size: int = 64) -> bytes:
    values = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "product",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, size])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, size])],
                              [numpy_helper.from_array(values, "w")])
    content: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                       ir_version=9).SerializeToString()
    return content


def per_call(call: Callable[[], Any]) -> float:
    """Microseconds."""
    begin = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - begin) / CALLS / 1e3


def ways() -> dict[str, Callable[[], float]]:
    """What is timed, in microseconds a call."""
    tw = importlib.import_module("tilewright")
    content = product()
    x = np.random.default_rng(1).standard_normal((1, 64)).astype(np.float32)
    options = tw.SessionOptions()
    options.intra_op_num_threads = 1
    session = tw.InferenceSession(content, options)
    model = tw.compile(content, threads=1)
    binding = model.bind(x=x)
    made: dict[str, Callable[[], float]] = {
        "runtime, without Python": lambda: float(np.median(binding.measure(CALLS))) / 1e3,
        "binding.run()": lambda: per_call(binding.run),
        "model(x)": lambda: per_call(lambda: model(x)),
        "session.run(None, {'x': x})": lambda: per_call(lambda: session.run(None, {"x": x}))}
    if importlib.util.find_spec("onnxruntime") is not None:
        ort = importlib.import_module("onnxruntime")
        theirs = ort.SessionOptions()
        theirs.intra_op_num_threads = 1
        other = ort.InferenceSession(content, theirs, providers=["CPUExecutionProvider"])
        made["onnxruntime's session.run"] = lambda: per_call(lambda: other.run(None, {"x": x}))
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--limit", type=float, default=1.5, help="microseconds of a bound call beyond the runtime")
    args = parser.parse_args()
    os.environ.setdefault("TILEWRIGHT_NO_MEASURE", "1")
    timed = ways()
    best = {name: float("inf") for name in timed}
    for _ in range(args.rounds):
        for name, way in timed.items():
            best[name] = min(best[name], way())
    runtime = best["runtime, without Python"]
    for name, microseconds in best.items():
        print(f"{name:28} {microseconds:7.3f} us{microseconds - runtime:+9.3f} us")
    beyond = best["binding.run()"] - runtime
    print(f"a bound call costs {beyond:.3f} us beyond the runtime; the limit is {args.limit:g} us")
    return 0 if beyond <= args.limit else 1


if __name__ == "__main__":
    raise SystemExit(main())
