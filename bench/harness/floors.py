"""What one kernel for a whole case takes at least on a GPU: to move what comes in and what leaves once, to compute, to
start. The rates are those that `tilewright doctor` knows of this GPU: measured after `tilewright doctor --remeasure`, of
its data sheet before.

The memory rate is that of DRAM: a case whose bytes stay in the L2 cache from one run to the next may be faster.
"""
import json
import math
import subprocess

import onnx

PEAKS = {"f16": ("f16", True), "f32": ("f32", False)}  # which factors, whether by matrix instructions


def rates(tools, target, dtype):
    """{"from": text, "bytes_per_ms", "flop_per_ms"} of the GPU that runs `target`; None where the command knows of none."""
    done = subprocess.run([tools.command, "doctor", "--json"], capture_output=True, text=True)
    device = json.loads(done.stdout)["devices"].get(target) if done.returncode == 0 else None
    return of_device(device, dtype) if device else None


def of_device(device, dtype):
    """The same from an entry of doctor's "devices". None where a rate is missing."""
    memory = device["gb_s"].get("DRAM", {})
    peaks = {(peak["type"], peak["matrix"]): peak["gops"] for peak in device["peaks"]}
    bandwidth, peak = memory.get("copy") or memory.get("read"), peaks.get(PEAKS[dtype])
    return {"from": device["from"], "bytes_per_ms": bandwidth * 1e6, "flop_per_ms": peak * 1e6} if bandwidth and peak else None


def fused_bytes(model, dtype):
    """Bytes of inputs, outputs and constants, floats as `dtype`: what remains to be moved if nothing in between is."""
    graph = onnx.load(model).graph
    values = [(v.type.tensor_type.elem_type, [d.dim_value for d in v.type.tensor_type.shape.dim])
              for v in [*graph.input, *graph.output]]
    values += [(tensor.data_type, tensor.dims) for tensor in graph.initializer]
    return sum(math.prod(shape) * width(kind, dtype) for kind, shape in values)


def width(kind, dtype):
    if kind == onnx.TensorProto.FLOAT:
        return {"f16": 2, "f32": 4}[dtype]
    return onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize


def floor(moved_bytes, flop, rates_, empty_ms):
    """{"ms", "by"}: the longest of the three, and which it is. `empty_ms`: one replay of a kernel that does nothing."""
    each = {"memory": moved_bytes / rates_["bytes_per_ms"], "arithmetic": flop / rates_["flop_per_ms"], "launch": empty_ms}
    by = max(each, key=each.get)
    return {"ms": each[by], "by": by}
