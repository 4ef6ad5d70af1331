"""A session with few threads, for a machine that has other work: options, warm-up, latency."""
import sys
import time

import numpy as np

import onnxruntime as ort
# import tilewright as ort


def main(model):
    ort.set_default_logger_severity(3)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.enable_mem_pattern = True
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    session = ort.InferenceSession(model, sess_options=options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(3).standard_normal(session.get_inputs()[0].shape).astype(np.float32)
    feeds = {session.get_inputs()[0].name: x}
    for _ in range(3):
        session.run(None, feeds)
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        result = session.run(None, feeds)
        times.append(time.perf_counter() - begin)
    assert session.get_session_options().intra_op_num_threads == 2
    print(f"onnxruntime's interface {ort.get_device()}, median {np.median(times) * 1e6:.0f} us")
    return result


if __name__ == "__main__":
    main(sys.argv[1])
