"""A recurrent model on a stream: the state that a chunk leaves is the input of the next one."""
import sys

import numpy as np

import onnxruntime as ort
# import tilewright as ort


def main(model):
    session = ort.InferenceSession(model)
    audio, *state_inputs = session.get_inputs()
    state = {i.name: np.zeros(i.shape, dtype=np.float32) for i in state_inputs}
    signal = np.random.default_rng(1).standard_normal((48, audio.shape[2])).astype(np.float32)
    chunk = audio.shape[0]
    pieces = []
    for begin in range(0, len(signal), chunk):
        x = signal[begin:begin + chunk, np.newaxis]
        y, *new_state = session.run(None, {audio.name: x, **state})
        state = dict(zip(state, new_state))
        pieces.append(y)
    stream = np.concatenate(pieces)
    print(f"{len(pieces)} chunks, {stream.shape[0]} frames")
    return [stream, *state.values()]


if __name__ == "__main__":
    main(sys.argv[1])
