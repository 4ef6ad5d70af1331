"""Writes where time goes, for chrome://tracing or Perfetto, and sums it up."""
import collections
import json
import os
import sys

import numpy as np

import onnxruntime as ort
# import tilewright as ort


def main(model):
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = "profile"
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(4).standard_normal(session.get_inputs()[0].shape).astype(np.float32)
    for _ in range(5):
        result = session.run(None, {session.get_inputs()[0].name: x})
    assert session.get_profiling_start_time_ns() > 0
    trace = session.end_profiling()
    with open(trace) as file:
        events = json.load(file)
    total = collections.Counter()
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            total[event["args"]["op_name"]] += event["dur"]
    for name, microseconds in total.most_common(5):
        print(f"{name}: {microseconds} us")
    assert total, "no node was timed"
    os.remove(trace)
    return result


if __name__ == "__main__":
    main(sys.argv[1])
