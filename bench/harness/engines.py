"""The engines, each as a class: it loads one model for one job, `run()` computes, `outputs()` gives its arrays.

A job is a dictionary: model (ONNX file), artefact (.tw), feeds (.npz), threads, torch (see held_out.py; may be empty).
Every engine is driven as its own guide advises for the lowest latency: inputs and outputs bound once, no copies.
"""
import os

import numpy as np


def feeds_of(job):
    with np.load(job["feeds"]) as arrays:
        return dict(arrays)


class Tilewright:
    def __init__(self, job):
        from . import tilewright_runtime
        self._model = tilewright_runtime.Model(job["library"], job["artefact"], job["threads"])
        self._model.bind(feeds_of(job))
        self.version, self.run = self._model.version, self._model.run

    def outputs(self):
        return list(self._model.outputs.values())


class OnnxRuntime:
    def __init__(self, job):
        import onnxruntime
        self.version = onnxruntime.__version__
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = job["threads"], 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(job["model"], options, providers=["CPUExecutionProvider"])
        feeds = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in feeds_of(job).items()}
        wanted = [o.name for o in session.get_outputs()]
        self._binding = session.io_binding()
        for value in session.get_inputs():
            self._binding.bind_ortvalue_input(value.name, feeds[value.name])
        for name in wanted:
            self._binding.bind_output(name)
        session.run_with_iobinding(self._binding)
        for name, value in zip(wanted, self._binding.get_outputs()):  # from now on into these buffers
            self._binding.bind_ortvalue_output(name, value)
        self.run = lambda: session.run_with_iobinding(self._binding)

    def outputs(self):
        return self._binding.copy_outputs_to_cpu()


class OpenVino:
    def __init__(self, job):
        import openvino
        self.version = openvino.__version__.split("-")[0]
        core = openvino.Core()
        compiled = core.compile_model(job["model"], "CPU", {
            "INFERENCE_NUM_THREADS": job["threads"], "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False})
        self._request, self._outputs, self._feeds = compiled.create_infer_request(), compiled.outputs, feeds_of(job)
        for port in compiled.inputs:
            name = next(n for n in port.get_names() if n in self._feeds)
            self._request.set_tensor(port, openvino.Tensor(self._feeds[name], shared_memory=True))
        self.run = self._request.infer

    def outputs(self):
        return [np.array(self._request.get_tensor(port).data) for port in self._outputs]


class Inductor:
    """torch.compile with freezing: constant weights are packed for oneDNN, batch norms folded, the rest generated."""

    def __init__(self, job):
        import torch
        import torch._inductor.config as inductor
        from . import torch_model
        torch.set_num_threads(job["threads"])
        inductor.freezing, inductor.cpp.threads = True, job["threads"]
        self.version = torch.__version__
        module, inputs = torch_model.load(job, feeds_of(job))
        compiled = torch.compile(module.eval(), dynamic=False)
        self._result = None

        def run():
            self._result = compiled(*inputs)
        self._no_grad = torch.inference_mode()
        self._no_grad.__enter__()  # for the life of this process: it does nothing else
        self.run = run

    def outputs(self):
        result = self._result if isinstance(self._result, (tuple, list)) else [self._result]
        return [r.numpy() for r in result]


ENGINES = {"tilewright": Tilewright, "onnxruntime": OnnxRuntime, "openvino": OpenVino, "inductor": Inductor}
OURS, REFERENCE = "tilewright", "onnxruntime"


def is_ours(label):
    """Tilewright as users have it, or with flags of its own: `tilewright:NAME`."""
    return label.split(":")[0] == OURS


def environment(threads):
    """Variables of a worker: as many OpenMP threads as the job has, wherever an engine uses OpenMP."""
    return dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads),
                TORCHINDUCTOR_COMPILE_THREADS="1")
