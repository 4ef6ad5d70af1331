"""Symbolic dimensions: batches of several sizes and texts of several lengths; one dimension fixed by name."""
import sys

import numpy as np

import onnxruntime as ort
# import tilewright as ort


def batches(items, size):
    for begin in range(0, len(items), size):
        yield items[begin:begin + size]


def main(model):
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    batch, length = session.get_inputs()[0].shape
    assert isinstance(batch, str) and isinstance(length, str), "symbolic dimensions are texts"
    rng = np.random.default_rng(5)
    results = []
    for texts in batches([rng.integers(0, 50, n) for n in (5, 3, 7, 7, 2)], 2):  # the last batch is smaller
        longest = max(len(text) for text in texts)
        ids = np.zeros((len(texts), longest), dtype=np.int64)
        for row, text in enumerate(texts):
            ids[row, :len(text)] = text
        results += session.run(None, {"ids": ids})

    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)  # length stays open
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == [2, "length"]
    for length in (4, 6):
        results += session.run(None, {"ids": rng.integers(0, 50, (2, length))})
    print([result.shape for result in results])
    return results


if __name__ == "__main__":
    main(sys.argv[1])
