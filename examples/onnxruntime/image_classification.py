"""Classifies a picture: the usual preprocessing of ImageNet models, and the five best classes."""
import sys

import numpy as np

import onnxruntime as ort
# import tilewright as ort

MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)


def preprocess(image, size):
    """uint8 height x width x 3 -> float32 1 x 3 x size x size: the middle of the picture, normalised."""
    height, width, _ = image.shape
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    rows = top + np.arange(size) * side // size
    columns = left + np.arange(size) * side // size
    pixels = image[rows][:, columns].astype(np.float32) / 255
    return ((pixels - MEAN) / STD).transpose(2, 0, 1)[np.newaxis, :]


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def main(model):
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    input_name = session.get_inputs()[0].name
    size = session.get_inputs()[0].shape[2]
    image = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    scores = session.run([session.get_outputs()[0].name], {input_name: preprocess(image, size)})[0]
    probabilities = softmax(scores[0])
    best = probabilities.argsort()[::-1][:5]
    for rank, index in enumerate(best, 1):
        print(f"{rank}. class {index}: {probabilities[index]:.3f}")
    return [scores, best]


if __name__ == "__main__":
    main(sys.argv[1])
