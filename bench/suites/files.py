"""A suite of one model of the user's own: MODEL.onnx, inputs in MODEL.npz beside it or made from the seed."""
import pathlib

import numpy as np

from .case import Case

KINDS = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 11: np.float64}  # onnx.TensorProto's numbers


def write_feeds(model, path, seed):
    """N(0,1) for floats, ones for integers; symbolic extents are 1."""
    import onnx
    graph = onnx.load(model, load_external_data=False).graph
    constants, rng, feeds = {t.name for t in graph.initializer}, np.random.default_rng(seed), {}
    for value in (v for v in graph.input if v.name not in constants):
        kind = value.type.tensor_type
        shape, dtype = [max(d.dim_value, 1) for d in kind.shape.dim], KINDS[kind.elem_type]
        feeds[value.name] = (rng.standard_normal(shape) if np.dtype(dtype).kind == "f" else np.ones(shape)).astype(dtype)
    np.savez(path, **feeds)


def cases(suite, options):
    model = pathlib.Path(suite).resolve()
    case = Case(model.stem, model, "model", options.batch or 1)
    if not case.feeds.exists():
        options.folder.mkdir(parents=True, exist_ok=True)
        case = Case(model.stem, model, "model", case.batch, feeds_file=options.folder / f"{model.stem}.npz")
        write_feeds(model, case.feeds, options.seed)
    return [case]
