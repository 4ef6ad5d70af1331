"""The models that the scripts of examples/onnxruntime run on, by the script's name: small ones of the real kinds."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import models
import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.helper import make_node

Array = np.ndarray[Any, Any]


def _random(*shape: int, seed: int = 0, scale: float = 0.3) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def image_classifier() -> onnx.ModelProto:
    """A convolution with batch normalisation, a pooling over the picture, and ten classes."""
    weights = {"w": _random(8, 3, 3, 3), "scale": np.full(8, 1.5, np.float32), "shift": _random(8),
               "mean": _random(8, seed=1), "var": np.full(8, 0.5, np.float32), "v": _random(8, 10, scale=2),
               "b": _random(10)}
    nodes = [make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
             make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
             make_node("Relu", ["n"], ["r"]), make_node("GlobalAveragePool", ["r"], ["p"]),
             make_node("Flatten", ["p"], ["f"]), make_node("Gemm", ["f", "v", "b"], ["scores"])]
    return models.model(nodes, [models.value("x", [1, 3, 32, 32])], [models.value("scores", [1, 10])], weights)


def question_answering(length: int = 16, width: int = 12) -> onnx.ModelProto:
    """Embeddings of tokens and segments, one masked attention, and the logits of start and end."""
    weights = {"tokens": _random(32, width, scale=1), "segments": _random(2, width, seed=1, scale=1),
               "q": _random(width, width, seed=2), "k": _random(width, width, seed=3),
               "v": _random(width, width, seed=4), "ends": _random(width, 2, seed=5, scale=2),
               "root": np.array(width ** -0.5, np.float32), "one": np.array(1, np.float32),
               "far": np.array(-10000, np.float32), "axis": np.array([1], np.int64),
               "last": np.array([-1], np.int64)}
    nodes = [make_node("Gather", ["tokens", "input_ids"], ["e0"]),
             make_node("Gather", ["segments", "token_type_ids"], ["e1"]), make_node("Add", ["e0", "e1"], ["e"]),
             *(make_node("MatMul", ["e", name], [f"e{name}"]) for name in "qkv"),
             make_node("Transpose", ["ek"], ["ekt"], perm=[0, 2, 1]), make_node("MatMul", ["eq", "ekt"], ["s"]),
             make_node("Mul", ["s", "root"], ["scaled"]),
             make_node("Cast", ["attention_mask"], ["m"], to=TensorProto.FLOAT),
             make_node("Sub", ["one", "m"], ["gone"]), make_node("Mul", ["gone", "far"], ["bias2"]),
             make_node("Unsqueeze", ["bias2", "axis"], ["bias"]), make_node("Add", ["scaled", "bias"], ["masked"]),
             make_node("Softmax", ["masked"], ["p"], axis=-1), make_node("MatMul", ["p", "ev"], ["a"]),
             make_node("MatMul", ["a", "ends"], ["logits"]),
             make_node("Split", ["logits"], ["s0", "s1"], axis=-1),
             make_node("Squeeze", ["s0", "last"], ["start_logits"]),
             make_node("Squeeze", ["s1", "last"], ["end_logits"])]
    shape = [1, length]
    return models.model(
        nodes, [models.value(n, shape, TensorProto.INT64) for n in ("input_ids", "attention_mask", "token_type_ids")],
        [models.value(n, shape) for n in ("start_logits", "end_logits")], weights)


def recurrent(chunk: int = 8, inputs: int = 6, hidden: int = 10) -> onnx.ModelProto:
    """An LSTM on chunks of a stream, with its state as inputs and outputs."""
    weights = {"w": _random(1, 4 * hidden, inputs), "r": _random(1, 4 * hidden, hidden, seed=1),
               "b": _random(1, 8 * hidden, seed=2), "axis": np.array([1], np.int64)}
    nodes = [make_node("LSTM", ["audio", "w", "r", "b", "", "h", "c"], ["y4", "h_out", "c_out"], hidden_size=hidden),
             make_node("Squeeze", ["y4", "axis"], ["y"])]
    state = [1, 1, hidden]
    return models.model(
        nodes, [models.value("audio", [chunk, 1, inputs]), models.value("h", state), models.value("c", state)],
        [models.value("y", [chunk, 1, hidden]), models.value("h_out", state), models.value("c_out", state)], weights)


def square(size: int = 32) -> onnx.ModelProto:
    """y = tanh(x w), of the shape of x."""
    nodes = [make_node("MatMul", ["x", "w"], ["a"]), make_node("Tanh", ["a"], ["y"])]
    return models.model(nodes, [models.value("x", [4, size])], [models.value("y", [4, size])],
                        {"w": _random(size, size, scale=0.2)})


def texts() -> onnx.ModelProto:
    """The mean of the embeddings of a text, for any batch and length."""
    nodes = [make_node("Gather", ["table", "ids"], ["e"]),
             make_node("ReduceMean", ["e"], ["mean"], axes=[1], keepdims=0)]
    return models.model(nodes, [models.value("ids", ["batch", "length"], TensorProto.INT64)],
                        [models.value("mean", ["batch", 6])], {"table": _random(50, 6, scale=1)})


def several_outputs() -> onnx.ModelProto:
    """Three outputs of one product."""
    nodes = [make_node("MatMul", ["x", "w"], ["first"]), make_node("Relu", ["first"], ["second"]),
             make_node("ReduceSum", ["second"], ["last"], keepdims=0)]
    return models.model(nodes, [models.value("x", [3, 16])],
                        [models.value("first", [3, 8]), models.value("second", [3, 8]), models.value("last", [])],
                        {"w": _random(16, 8, scale=1)})


def described() -> onnx.ModelProto:
    """models.dense() with everything that a model can say of itself."""
    made = models.dense()
    made.producer_name, made.domain, made.model_version, made.doc_string = "maker", "com.example", 3, "a detector"
    made.graph.doc_string = "two layers"
    helper.set_model_props(made, {"names": "{0: 'cat', 1: 'dog'}", "scale": "0.5"})
    return made


def half() -> onnx.ModelProto:
    """y = a b + c in float16"""
    nodes = [make_node("MatMul", ["a", "b"], ["ab"]), make_node("Add", ["ab", "c"], ["y"])]
    shapes = {"a": [4, 16], "b": [16, 8], "c": [8]}
    return models.model(nodes, [models.value(n, s, TensorProto.FLOAT16) for n, s in shapes.items()],
                        [models.value("y", [4, 8], TensorProto.FLOAT16)])


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "image_classification": image_classifier, "bert_question_answering": question_answering,
    "streaming_rnn": recurrent, "io_binding_loop": square, "thread_options": square, "profiling": image_classifier,
    "batches_of_any_size": texts, "sessions_in_threads": square, "some_outputs": several_outputs,
    "model_from_bytes": image_classifier, "metadata": described, "half_precision": half,
    "asynchronous_runs": square}
