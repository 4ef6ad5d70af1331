"""A model that comes as bytes, and a list of providers with their options, the best one first."""
import sys

import numpy as np

import onnxruntime as ort
# import tilewright as ort


def main(model):
    with open(model, "rb") as file:
        content = file.read()
    wanted = [("CUDAExecutionProvider", {"device_id": 0, "arena_extend_strategy": "kNextPowerOfTwo"}),
              "CPUExecutionProvider"]
    available = ort.get_available_providers()
    providers = [p for p in wanted if (p if isinstance(p, str) else p[0]) in available]
    session = ort.InferenceSession(content, providers=providers)
    assert session.get_providers()[-1] == "CPUExecutionProvider"
    x = np.random.default_rng(8).standard_normal(session.get_inputs()[0].shape).astype(np.float32)
    first = session.run(None, {session.get_inputs()[0].name: x})

    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"],
                                   provider_options=[{"arena_extend_strategy": "kSameAsRequested"}])
    session.disable_fallback()
    second = session.run(None, {session.get_inputs()[0].name: x})
    session.set_providers(["CPUExecutionProvider"])
    print("providers:", session.get_providers(), "options:", sorted(session.get_provider_options()))
    return first + second


if __name__ == "__main__":
    main(sys.argv[1])
