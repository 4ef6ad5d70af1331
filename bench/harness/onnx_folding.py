"""Batch norms that follow a convolution become part of its weights, as whoever deploys a model does it for any engine."""
import numpy as np
from onnx import helper, numpy_helper


def fold_batch_norms(model):
    """The model, changed: a BatchNormalization that alone reads a Conv of constant weights is gone."""
    graph = model.graph
    constants = {t.name: t for t in graph.initializer}
    readers = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    norms = {n.input[0]: n for n in graph.node if n.op_type == "BatchNormalization"}
    for node in [n for n in graph.node if n.op_type == "Conv"]:
        norm = norms.get(node.output[0])
        if norm is None or len(readers[node.output[0]]) != 1 or node.input[1] not in constants:
            continue
        weight, bias = folded(node, norm, constants)
        names = [f"{node.output[0]}.folded_weight", f"{node.output[0]}.folded_bias"]
        graph.initializer.extend(numpy_helper.from_array(a, n) for a, n in zip((weight, bias), names))
        node.input[:] = [node.input[0], *names]
        node.output[0] = norm.output[0]
        graph.node.remove(norm)
    return model


def folded(node, norm, constants):
    """Weight and bias of the convolution with the norm behind it."""
    weight, bias = (numpy_helper.to_array(constants[n]).astype(np.float64) if n else 0.0
                    for n in [*node.input[1:], ""][:2])
    gain, shift, mean, variance = (numpy_helper.to_array(constants[n]).astype(np.float64) for n in norm.input[1:5])
    epsilon = next((helper.get_attribute_value(a) for a in norm.attribute if a.name == "epsilon"), 1e-5)
    scale = gain / np.sqrt(variance + epsilon)
    weight = weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
    return weight.astype(np.float32), ((bias - mean) * scale + shift).astype(np.float32)
