#!/usr/bin/env python3
"""Where a network's time goes: microseconds of every contraction in Tilewright, onnxruntime and OpenVINO, side by side.

  PYTHON bench/layers.py MODEL.onnx --threads 1 [--sort] [--engines tilewright,onnxruntime,openvino]

Each engine runs in a process of its own, one after another, with its own profiler, which costs it something: rows say
where to look, not who wins. The best of --runs runs for every step. What is no contraction is summed by kind.
"""
import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import re
import sys
import tempfile

import numpy as np
import onnx
from onnx import shape_inference

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import artefacts, rounds  # noqa: E402

HEAVY = ("Conv", "ConvTranspose", "Gemm", "MatMul")
PEERS_HEAVY = ("Conv", "Gemm", "MatMul", "FullyConnected")


def heavy_nodes(path):
    """{node name: ((input shape, output shape), text)} of the contractions, in order."""
    model = shape_inference.infer_shapes(onnx.load(path))
    graph = model.graph
    values = [*graph.input, *graph.value_info, *graph.output]
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in values}
    shapes.update({t.name: tuple(t.dims) for t in graph.initializer})
    result = {}
    for node in graph.node:
        if node.op_type in HEAVY:
            x, w, y = (shapes.get(n, ()) for n in (node.input[0], node.input[1], node.output[0]))
            text = " ".join("x".join(map(str, s)) for s in (x, w)) + " -> " + "x".join(map(str, y))
            result[node.name or node.output[0]] = ((x, y), text)
    return result


def best_of(runs):
    """{key: smallest total of one run} from a list of runs, each a list of (key, microseconds)."""
    totals = []
    for run in runs:
        total = collections.Counter()
        for key, microseconds in run:
            total[key] += microseconds
        totals.append(total)
    return {key: min(t[key] for t in totals) for key in totals[0]}


def ours(args, heavy):
    from harness import tilewright_runtime
    tools = artefacts.find_tools(args.tilewright)
    artefact, _ = artefacts.compile_model(tools, args.model, args.compile_flags.split())
    model = tilewright_runtime.Model(str(tools.library), artefact, args.threads, profile=True)
    model.bind(dict(np.load(args.model.with_suffix(".npz"))))
    runs = []
    for _ in range(args.runs):
        model.run()
        named = []
        for label, microseconds in model.last_profile():
            nodes = [n for n in re.split(r"[+ ()]+", label) if n in heavy]
            named.append((nodes[0] if nodes else "other", microseconds))
        runs.append(named)
    return best_of(runs[1:])


def onnxruntime_times(args, heavy):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.enable_profiling = args.threads, True
    options.profile_file_prefix = str(pathlib.Path(tempfile.mkdtemp()) / "profile")
    session = onnxruntime.InferenceSession(str(args.model), options, providers=["CPUExecutionProvider"])
    feeds = dict(np.load(args.model.with_suffix(".npz")))
    for _ in range(args.runs):
        session.run(None, feeds)
    events = json.loads(pathlib.Path(session.end_profiling()).read_text())
    runs = []
    for event in events:
        if event.get("name") == "model_run":
            runs.append([])  # it ends the run
        elif event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            keys = ("input_type_shape", "output_type_shape")
            first = [next(iter(event["args"].get(key) or [{"": []}])) for key in keys]
            runs = runs or [[]]
            runs[-1].append((event["args"]["op_name"], tuple(tuple(*f.values()) for f in first), event["dur"]))
    return best_of([attribute(run, heavy) for run in runs[1:] if run])


def attribute(steps, heavy):
    """Contractions among (kind, shapes, us) go to the next one of those shapes; the rest is summed by kind."""
    waiting = collections.defaultdict(collections.deque)
    for name, (both, _) in heavy.items():
        waiting[both].append(name)
    result = []
    for kind, both, microseconds in steps:
        is_heavy = any(word in kind for word in PEERS_HEAVY) and waiting[both]
        result.append((waiting[both].popleft() if is_heavy else f"other: {kind}", microseconds))
    return result


def openvino_times(args, heavy):
    import openvino
    compiled = openvino.Core().compile_model(str(args.model), "CPU", {
        "INFERENCE_NUM_THREADS": args.threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32", "PERF_COUNT": True})
    request, feeds, runs = compiled.create_infer_request(), dict(np.load(args.model.with_suffix(".npz"))), []
    shapes = {op.get_friendly_name(): (tuple(op.input(0).get_shape()), tuple(op.output(0).get_shape()))
              for op in compiled.get_runtime_model().get_ordered_ops() if op.get_input_size() and op.get_output_size()}
    for _ in range(args.runs):
        request.infer(feeds)
        steps = [i for i in request.get_profiling_info() if str(i.status).endswith("EXECUTED")]
        runs.append(attribute([(i.node_type, shapes.get(i.node_name, ()), i.real_time.total_seconds() * 1e6)
                               for i in steps], heavy))
    return best_of(runs[1:])


PROFILERS = {"tilewright": ours, "onnxruntime": onnxruntime_times, "openvino": openvino_times}


def in_process(name, args, heavy, answers):
    os.sched_setaffinity(0, rounds.available_cores(args.threads))
    answers.put(PROFILERS[name](args, heavy))


def profile(name, args, heavy):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=in_process, args=(name, args, heavy, answers))
    process.start()
    result = answers.get()
    process.join()
    return result


def print_table(args, heavy, times):
    names = list(times)
    print(f"{'':24}" + "".join(f"{n:>13}" for n in names) + "   ours - best")
    rows = []
    for node, (_, text) in heavy.items():
        each = [times[n].get(node, 0.0) for n in names]
        others = [t for n, t in zip(names, each) if n != "tilewright" and t > 0]
        rows.append((node, text, each, times.get("tilewright", {}).get(node, 0.0) - min(others, default=0.0)))
    for node, text, each, lost in sorted(rows, key=lambda r: -r[3]) if args.sort else rows:
        print(f"{node[-24:]:24}" + "".join(f"{t:13.1f}" for t in each) + f"{lost:14.1f}   {text}")
    for kind in sorted({k for t in times.values() for k in t if k not in heavy}):
        print(f"{kind:24}" + "".join(f"{times[n].get(kind, 0.0):13.1f}" for n in names))
    print(f"{'sum':24}" + "".join(f"{sum(times[n].values()):13.1f}" for n in names))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=pathlib.Path, help="NAME.onnx with inputs in NAME.npz")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--runs", type=int, default=20)
    p.add_argument("--engines", default=",".join(PROFILERS))
    p.add_argument("--sort", action="store_true", help="the layers that lose most first")
    p.add_argument("--compile-flags", default="")
    p.add_argument("--tilewright")
    args = p.parse_args()
    heavy = heavy_nodes(args.model)
    print_table(args, heavy, {name: profile(name, args, heavy) for name in args.engines.split(",")})
    return 0


if __name__ == "__main__":
    sys.exit(main())
