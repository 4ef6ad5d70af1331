"""Requests that do not wait for each other: each run ends with a call of a function, in another thread."""
import sys
import threading

import numpy as np

import onnxruntime as ort
# import tilewright as ort

REQUESTS = 8


class Answers:
    def __init__(self, count):
        self.results = [None] * count
        self.left = threading.Semaphore(0)

    def keep(self, results, number, error):
        self.results[number] = error if error else results[0]
        self.left.release()


def main(model):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name, shape = session.get_inputs()[0].name, session.get_inputs()[0].shape
    requests = np.random.default_rng(8).standard_normal((REQUESTS, *shape)).astype(np.float32)
    answers = Answers(REQUESTS)
    for number, x in enumerate(requests):
        session.run_async(None, {name: x}, answers.keep, number)
    for _ in requests:
        answers.left.acquire()
    errors = [answer for answer in answers.results if isinstance(answer, str)]
    if errors:
        raise RuntimeError(errors[0])
    print(f"{REQUESTS} requests")
    return answers.results


if __name__ == "__main__":
    main(sys.argv[1])
