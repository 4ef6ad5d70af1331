"""The engines of training, each as a class: it loads one case, `run()` or, on a GPU, `measure(request)` times a step,
`outputs()` gives what was computed from the start weights, `memory` the bytes that it took.

A job has `training` (the specification), device ("cpu", "cuda"), dtype ("f32", "bf16"), threads, and Tilewright's artefact.
Of a step the outputs are the losses of the first steps on one batch, and by how much they fell, of gradients the loss and
their norm.
"""
import ctypes
import pathlib
import re

import numpy as np

from harness import gpu_engines
from harness import tilewright_runtime as rt

RATE, DECAY, STEPS = 1e-4, 0.01, 5


def compared(losses, squares=None):
    """What engines are compared by. A wrong optimizer hardly shows in a loss that has just begun to fall."""
    losses = np.array(losses)
    return [losses, losses[1:] - losses[0]] if squares is None else [losses, np.sqrt([squares])]


class Memory:
    """Bytes that this process took since: of a GPU what is not free any more, of a CPU the most that was resident."""

    def __init__(self, device):
        self._is_gpu = device == "cuda"
        if not self._is_gpu:
            pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
        self._before = self._now("VmRSS")

    def _now(self, what):
        if self._is_gpu:
            import torch
            free, total = torch.cuda.mem_get_info()
            return total - free
        return 1024 * int(re.search(rf"{what}:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())[1])

    def taken(self):
        return max(0, self._now("VmHWM") - self._before)


class Function(rt.Model):
    """One function of the artefact of `tilewright train`; parameters and moments are its state."""

    def __init__(self, job, given):
        super().__init__(job["library"], job["artefact"], job["threads"])
        number, info = ctypes.c_int32(), rt.FunctionInfo(struct_size=ctypes.sizeof(rt.FunctionInfo))
        self._check(self.api.find_function(self._model, job["training"]["function"].encode(), ctypes.byref(number)))
        self._check(self.api.function_info(self._model, number, ctypes.byref(info)))
        self._number, self._kept, self._results = info.first_entry, [], {}
        self._given = self._array(info.input_count, self.api.input_info, given, job["device"])
        self._computed = self._array(info.output_count, self.api.output_info, None, job["device"])

    def _array(self, count, info, given, device):
        tensors = []
        for name, dtype, shape in self._infos(count, lambda model, _, i, out: info(model, self._number, i, out)):
            array = rt.aligned_empty(shape, dtype)
            array[...] = given[name] if given else 0
            tensors.append(self._placed(array, device))
            self._results[name] = self._kept[-1]
        return (rt.Tensor * len(tensors))(*tensors)

    def once(self):
        self._check(self.api.run_entry(self._context, self._number, self._given, self._computed))

    def times(self, count):
        """In ms, of so many runs in a row."""
        found = (ctypes.c_uint64 * count)()
        self._check(self.api.measure_entry(self._context, self._number, self._given, self._computed, found, count))
        return [t / 1e6 for t in found]

    def fetch(self, name):
        array = self._results[name]
        return np.asarray(array.float().cpu() if hasattr(array, "cpu") else array, np.float64)

    def gradients(self):
        return [self.fetch(name) for name in self._results if name.endswith(".grad")]


class Tilewright:
    def __init__(self, job):
        if job["device"] == "cuda":
            import torch  # lends its memory
            torch.cuda.init()
        memory = Memory(job["device"])
        with np.load(job["feeds"]) as feeds:
            given = {**feeds, "learning_rate": np.float32(RATE), "seed": np.int64(0)}
        self._function, self._is_step = Function(job, given), job["training"]["function"] == "step"
        self.version = self._function.version
        if job["device"] == "cuda":
            self.measure = lambda request: gpu_engines.timed_rows(lambda _, count: self._function.times(count), request, 1)
        else:
            self.run = self._function.once
        self._compared = self._from_start()
        self.memory = memory.taken()

    def _from_start(self):
        losses = []
        for _ in range(STEPS if self._is_step else 1):
            self._function.once()
            losses.append(float(self._function.fetch("loss")))
        return compared(losses, None if self._is_step else sum((g**2).sum() for g in self._function.gradients()))

    def outputs(self):
        return self._compared


class Eager:
    """torch as its users have it: fused AdamW, of 16 bits autocast with parameters of f32; on GPUs a CUDA graph."""

    def __init__(self, job):
        import torch
        from training import networks
        self._torch, self.version, spec = torch, torch.__version__, job["training"]
        torch.set_num_threads(job["threads"])
        torch.backends.cudnn.benchmark = True
        torch.set_float32_matmul_precision("high")
        device, self._dtype = job["device"], job["dtype"]
        if device == "cuda":
            torch.cuda.init()
        memory = Memory(device)
        module, inputs, labels = networks.build(spec)
        self._module, self._labels = self._placed(module.to(device)), labels.to(device)
        self._given = [self._placed(x.to(device)) for x in inputs.values()]
        self._device_type, self._is_step = device, spec["function"] == "step"
        self._loss_of = {"mse": torch.nn.functional.mse_loss, "cross_entropy": torch.nn.functional.cross_entropy}[spec["loss"]]
        self._start = {name: p.detach().clone() for name, p in self._module.state_dict().items()}
        self._optimizer = torch.optim.AdamW(self._module.parameters(), lr=RATE, weight_decay=DECAY, fused=True,
                                            **({"capturable": True} if device == "cuda" else {}))
        self._forward = self.prepare(torch, self._loss)
        self.loss = None
        if device == "cuda":
            self._device = gpu_engines.Replays()
            self._replay, self._captured = self._device.capture(self._step)
            self.measure = lambda request: gpu_engines.timed_rows(
                lambda index, count: self._device.times(self._replay, count), request, 1)
            self._once = lambda: (self._replay(), self._captured)[1]
        else:
            self.run = self._once = self._step
        self._compared = self._from_start()
        self.memory = memory.taken()

    def _placed(self, value):
        """Images and what computes with them: channels last."""
        is_images = not isinstance(value, self._torch.Tensor) or value.ndim == 4
        return value.to(memory_format=self._torch.channels_last) if is_images else value

    def prepare(self, torch, loss):
        return loss

    def _loss(self, *inputs):
        with self._torch.autocast(self._device_type, self._torch.bfloat16, enabled=self._dtype == "bf16"):
            return self._loss_of(self._module(*inputs).float(), self._labels)

    def _step(self):
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._forward(*self._given)
        loss.backward()
        if self._is_step:
            self._optimizer.step()
        return loss.detach()

    def _from_start(self):
        if self._is_step:
            self._once()  # so that there are moments to begin again with
        with self._torch.no_grad():
            for name, value in self._module.state_dict().items():
                value.copy_(self._start[name])
            for state in self._optimizer.state.values():
                for value in state.values():
                    value.zero_()
        if self._is_step:
            return compared([float(self._once()) for _ in range(STEPS)])
        loss = float(self._once())
        return compared([loss], sum(float((p.grad.double()**2).sum()) for p in self._module.parameters() if p.grad is not None))

    def outputs(self):
        return self._compared


class Inductor(Eager):
    """Forward, loss and backward compiled."""

    def prepare(self, torch, loss):
        torch.compiler.reset()
        return torch.compile(loss, dynamic=False)


class InductorCudnn(Inductor):
    """With cuDNN's attention wherever it can be had."""

    def prepare(self, torch, loss):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        backends = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]

        def chosen(*inputs):
            with sdpa_kernel(backends, set_priority=True):
                return loss(*inputs)
        return super().prepare(torch, chosen)


ENGINES = {"tilewright": Tilewright, "eager": Eager, "inductor": Inductor, "inductor_cudnn": InductorCudnn}
OF_GPUS = {"inductor_cudnn"}  # what CPUs do not have
