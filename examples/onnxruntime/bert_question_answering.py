"""Finds the answer to a question in a text: a BERT with three int64 inputs and the logits of start and end."""
import sys

import numpy as np

import onnxruntime as ort
# import tilewright as ort


def encode(question, context, length):
    """[CLS] question [SEP] context [SEP] and padding, as one row of a batch."""
    ids = [1, *question, 2, *context, 2]
    segments = [0] * (len(question) + 2) + [1] * (len(context) + 1)
    padding = length - len(ids)
    return {"input_ids": np.array([ids + [0] * padding], dtype=np.int64),
            "attention_mask": np.array([[1] * len(ids) + [0] * padding], dtype=np.int64),
            "token_type_ids": np.array([segments + [0] * padding], dtype=np.int64)}


def best_span(start, end, longest=8):
    candidates = [(start[i] + end[j], i, j) for i in range(len(start)) for j in range(i, min(i + longest, len(end)))]
    return max(candidates)[1:]


def main(model):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = {i.name for i in session.get_inputs()}
    inputs = {k: v for k, v in encode([5, 9, 3], [7, 4, 8, 6, 11], 16).items() if k in names}
    outputs = session.run(None, inputs)
    by_name = dict(zip([o.name for o in session.get_outputs()], outputs))
    span = best_span(by_name["start_logits"][0], by_name["end_logits"][0])
    print("the answer has the tokens", span)
    return [*outputs, np.array(span)]


if __name__ == "__main__":
    main(sys.argv[1])
