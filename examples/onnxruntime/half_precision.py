"""A model with float16 inputs and outputs: arrays are cast to what the session asks for."""
import sys

import numpy as np

import onnxruntime as ort
# import tilewright as ort

TYPES = {"tensor(float16)": np.float16, "tensor(float)": np.float32, "tensor(double)": np.float64,
         "tensor(int64)": np.int64, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_}


def main(model):
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(10)
    feeds = {}
    for value in session.get_inputs():
        feeds[value.name] = rng.standard_normal(value.shape).astype(TYPES[value.type])
    outputs = session.run(None, feeds)
    for value, array in zip(session.get_outputs(), outputs):
        assert array.dtype == TYPES[value.type], (value.name, array.dtype)
    value = ort.OrtValue.ortvalue_from_numpy(feeds[session.get_inputs()[0].name])
    assert value.data_type() == "tensor(float16)" and value.element_type() == 10  # TensorProto.FLOAT16
    print({name: array.dtype for name, array in feeds.items()})
    return outputs


if __name__ == "__main__":
    main(sys.argv[1])
