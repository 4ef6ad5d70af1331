"""A small server: several sessions in a pool of threads, and one session that all threads share."""
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import onnxruntime as ort
# import tilewright as ort

REQUESTS = 24
WORKERS = 4


def open_session(model):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def main(model):
    sessions = [open_session(model) for _ in range(WORKERS)]
    name, shape = sessions[0].get_inputs()[0].name, sessions[0].get_inputs()[0].shape
    requests = np.random.default_rng(6).standard_normal((REQUESTS, *shape)).astype(np.float32)
    with ThreadPoolExecutor(WORKERS) as pool:
        each = list(pool.map(lambda i: sessions[i % WORKERS].run(None, {name: requests[i]})[0], range(REQUESTS)))
        shared = list(pool.map(lambda x: sessions[0].run(None, {name: x})[0], requests))
    for a, b in zip(each, shared):
        np.testing.assert_array_equal(a, b)
    print(f"{len(each)} requests")
    return each


if __name__ == "__main__":
    main(sys.argv[1])
