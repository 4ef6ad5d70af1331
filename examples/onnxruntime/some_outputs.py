"""Asks for some of the outputs only, with options of a run."""
import sys

import numpy as np

import onnxruntime as ort
# import tilewright as ort


def main(model):
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(7).standard_normal(session.get_inputs()[0].shape).astype(np.float32)
    names = [o.name for o in session.get_outputs()]
    run_options = ort.RunOptions()
    run_options.log_severity_level = 3
    run_options.logid = "request 1"
    run_options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    run_options.only_execute_path_to_fetches = True
    last, first = session.run([names[-1], names[0]], {"x": x}, run_options=run_options)
    everything = session.run(None, {"x": x}, run_options)
    np.testing.assert_array_equal(first, everything[0])
    np.testing.assert_array_equal(last, everything[-1])
    try:
        session.run(["no such output"], {"x": x})
    except ValueError as error:
        print("as expected:", str(error)[:60])
    except Exception as error:
        print("as expected:", str(error)[:60])
    else:
        raise AssertionError("an output that is not there was computed")
    return everything


if __name__ == "__main__":
    main(sys.argv[1])
