"""What a model says of itself: labels and settings that its maker put into custom metadata."""
import ast
import sys

import numpy as np

import onnxruntime as ort
# import tilewright as ort


def main(model):
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    meta = session.get_modelmeta()
    print(f"{meta.graph_name} {meta.version} of {meta.producer_name}, {meta.domain}: {meta.description}")
    assert meta.producer_name and meta.version == 3 and meta.graph_description == "two layers"
    properties = meta.custom_metadata_map
    names = ast.literal_eval(properties["names"])  # as detectors are exported: {0: 'cat', 1: 'dog'}
    scale = float(properties["scale"])
    x = np.random.default_rng(9).standard_normal(session.get_inputs()[0].shape).astype(np.float32) * scale
    scores = session.run(None, {"x": x})[0][0]
    print("it is a", names[int(scores[:len(names)].argmax())])
    for value in [*session.get_inputs(), *session.get_outputs()]:
        print(value.name, value.type, value.shape)
    return [scores]


if __name__ == "__main__":
    main(sys.argv[1])
