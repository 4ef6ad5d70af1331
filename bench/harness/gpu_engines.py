"""The engines on a GPU, each as a class: it loads one model for one job, `measure(request)` times it, `outputs()` gives
its arrays.

A run is timed on the GPU, between events around one replay of a CUDA graph; a row of replays is submitted at once, so that
no replay waits for the host, and the inputs change from row to row. What XLA runs cannot be captured: of a row of its calls
the mean by the clock is taken. Beside engines.py's, a job has: dtype ("f32" or "f16": of inputs, outputs and weights),
device ("cuda"; "cpu" shows that the harness works where there is no GPU).
"""
import math
import os
import time

import numpy as np

from . import edges
from .engines import feeds_of
from .medians import Tolerance

INPUT_SETS = 3
LARGE_BYTES = 1 << 28  # of inputs, which no cache of a GPU holds: their place in memory is one
ROW_MS, LONGEST_ROW = 50.0, 100  # as `tilewright bench` has it
SHORTEST_DELAY, LONGEST_DELAY = 1 << 17, 1 << 26  # cycles of a GPU's clock: .1 and 40 ms or so
NUMPY = {"f32": np.float32, "f16": np.float16}


def input_sets(job):
    """Feeds of the job's type in several places: the case's own, then the same rolled along their first axis. Large ones in
    one place only."""
    given = edges.feeds_for(job["model"], feeds_of(job))
    feeds = {name: a.astype(NUMPY[job["dtype"]]) if a.dtype == np.float32 else a for name, a in given.items()}
    count = INPUT_SETS if sum(a.nbytes for a in feeds.values()) < LARGE_BYTES else 1
    return [feeds] + [{name: np.roll(a, k, 0) if a.ndim else a for name, a in feeds.items()} for k in range(1, count)]


def timed_rows(row, request, sets):
    """Times in ms of rows of runs; `row(index, count)` gives those of `count` runs on one of so many sets of inputs."""
    clock, times, index = time.perf_counter, [], 0
    end = clock() + request["warm_up"]
    last = row(0, 1)[-1]
    while clock() < end:
        last = row(0, 1)[-1]
    count = max(1, min(LONGEST_ROW, math.floor(ROW_MS / max(last, ROW_MS / LONGEST_ROW))))
    end = clock() + request["duration"]
    while len(times) < request["runs"] or clock() < end:
        times += row(index % sets, count)
        index += 1
    return times


class Replays:
    """Runs as CUDA graphs on torch's stream."""

    def __init__(self):
        import torch
        self._torch, self._delay, self._events = torch, SHORTEST_DELAY, []

    def capture(self, run):
        torch, side = self._torch, self._torch.cuda.Stream()
        torch.cuda.synchronize()  # inputs were made on another stream
        with torch.cuda.stream(side):  # what is decided at first calls is decided outside of the capture
            for _ in range(3):
                run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = run()
        return graph.replay, result

    def times(self, replay, count):
        """The GPU is made to wait first, longer and longer until it finds every replay submitted: Python submits one in 10
        to 15 us, and would time itself where a kernel takes less. No longer than that: a GPU at its limit of power is the
        faster for a rest."""
        while True:
            times, is_ahead = self._row(replay, count)
            if is_ahead or self._delay >= LONGEST_DELAY:
                return times
            self._delay *= 2

    def _row(self, replay, count):
        cuda, is_ahead = self._torch.cuda, True
        while len(self._events) <= count:
            self._events.append(cuda.Event(enable_timing=True))
        events = self._events[:count + 1]
        replay()  # one that is not timed
        cuda._sleep(self._delay)
        for event in events[:-1]:
            event.record()
            replay()
            is_ahead = is_ahead and not event.query()
        events[-1].record()
        cuda.synchronize()
        return [a.elapsed_time(b) for a, b in zip(events, events[1:])], is_ahead


class Calls:
    """The same on a CPU."""

    def capture(self, run):
        return run, run()

    def times(self, run, count):
        times = []
        for _ in range(count):
            start = time.perf_counter()
            run()
            times.append((time.perf_counter() - start) * 1e3)
        return times


def on_device(job):
    return Replays() if job["device"] == "cuda" else Calls()


class Empty:
    """A kernel that does nothing: what a replay takes at least. It is no peer and has no outputs."""
    module = "torch"

    def __init__(self, job):
        import torch
        self.version, self._device = torch.__version__, on_device(job)
        self._run, _ = self._device.capture((lambda: torch.cuda._sleep(0)) if job["device"] == "cuda" else (lambda: None))

    def measure(self, request):
        return timed_rows(lambda index, count: self._device.times(self._run, count), request, 1)

    def outputs(self):
        return []


class Torch:
    """A torch module over torch's tensors; subclasses say what runs it."""
    module = "torch"
    dtype = None  # of the module where it is not the job's

    def __init__(self, job):
        import torch
        from . import torch_model
        self.version = torch.__version__
        torch.backends.cudnn.benchmark = True
        torch.set_grad_enabled(False)  # for the life of this process: it does nothing else
        dtype = {"f32": torch.float32, "f16": torch.float16}[self.dtype or job["dtype"]]
        sets = input_sets(job)
        torch_module = job["torch"] if job.get("own_module") else None
        module, _ = torch_model.load(dict(job, torch=torch_module, fold=True, dtype=self.dtype or job["dtype"]), sets[0])
        module = self._placed(torch, module.eval(), dtype, job["device"])
        function = self.prepare(torch, module)
        self._kept = [function]  # a graph reads weights and inputs where they lie, and does not keep them
        self._device = on_device(job)
        self._runs = []
        for feeds in sets:
            tensors = [self._tensor(torch, feeds[name], dtype, job["device"]) for name in feeds]
            self._runs.append(self._device.capture(lambda tensors=tensors: function(*tensors)))
            self._kept.append(tensors)

    @staticmethod
    def _placed(torch, module, dtype, device):
        """Weights as convolutions of the GPU like them: channels last, 2-d and 3-d."""
        module = module.to(device=device, dtype=dtype)
        for tensor in [*module.parameters(), *module.buffers()]:
            form = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.ndim)
            if form is not None:
                tensor.data = tensor.data.to(memory_format=form)
        return module

    @staticmethod
    def _tensor(torch, array, dtype, device):
        tensor = torch.from_numpy(np.ascontiguousarray(array)).to(device)
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    def prepare(self, torch, module):
        return module

    def measure(self, request):
        return timed_rows(lambda index, count: self._device.times(self._runs[index][0], count), request, len(self._runs))

    def outputs(self):
        replay, result = self._runs[0]
        replay()
        return [r.float().cpu().numpy() for r in (result if isinstance(result, (tuple, list)) else [result])]


class Reference(Torch):
    """What outputs are compared with: f32 throughout, no TF32."""
    dtype = "f32"

    def prepare(self, torch, module):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        return module


class Inductor(Torch):
    options = {}

    def prepare(self, torch, module):
        import torch._inductor.config as inductor
        torch.compiler.reset()  # what it keeps of the case before counts as a recompilation
        for name, value in self.options.items():
            setattr(inductor, name, value)
        return torch.compile(module, dynamic=False)


class Frozen(Inductor):
    options = {"freezing": True}


class MaxAutotune(Inductor):
    options = {"freezing": True, "max_autotune": True}


class Xla:
    module = "jax"

    def __init__(self, job):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax
        from . import jax_model
        self.version = jax.__version__
        sets = input_sets(job)
        function, weights = jax_model.convert(job["model"], list(sets[0]), NUMPY[job["dtype"]])
        weights = jax.device_put(weights)
        self._sets = [jax.device_put(list(feeds.values())) for feeds in sets]
        self._wait = jax.block_until_ready
        compiled = jax.jit(function).lower(weights, *self._sets[0]).compile()
        self._run = lambda index: compiled(weights, *self._sets[index])

    def _row(self, index, count):
        self._wait(self._run(index))
        start = time.perf_counter()
        for _ in range(count):
            result = self._run(index)
        self._wait(result)
        return [(time.perf_counter() - start) * 1e3 / count]

    def measure(self, request):
        return timed_rows(self._row, dict(request, runs=1), len(self._sets))

    def outputs(self):
        return [np.asarray(r).astype(np.float32) for r in self._run(0)]


class Tilewright:
    """The artefact through the runtime's interface, from and to tensors in the GPU's memory."""
    module = "torch"

    def __init__(self, job):
        from . import tilewright_runtime
        self._model = tilewright_runtime.Model(job["library"], job["artefact"], job["threads"])
        sets = input_sets(job)
        self._count = len(sets)
        self._model.bind_sets(sets, "cuda" if job["device"] == "cuda" else "cpu")
        self.version = self._model.version

    def measure(self, request):
        return timed_rows(self._model.measure, request, self._count)

    def outputs(self):
        self._model.measure(0, 1)
        return [a.astype(np.float32) for a in self._model.fetched_outputs()]


ENGINES = {"tilewright": Tilewright, "eager": Torch, "inductor": Inductor, "frozen": Frozen, "max-autotune": MaxAutotune,
           "xla": Xla}
REFERENCE, EMPTY = "reference", "empty"
TIMING = {"max-autotune", "xla"}  # time kernels while they load
LOADERS = dict(ENGINES, **{REFERENCE: Reference, EMPTY: Empty})
# Largest difference from the reference, relative to the largest value of an output. A wrong kernel gives one of about 1.
# Layers one after another enlarge what is rounded, and the largest of many outputs is far out: torch's own f16 kernels
# differ by .05 on MobileNet-V2, by .1 on ResNet-50 of 32 images. So peers tell what a model does to f16.
TOLERANCE = {"f32": Tolerance(2e-3, 2e-3), "f16": Tolerance(0.02, 0.15)}
# Of torch's own modules: twice what torch's f16 differs by, and a unit of f16's last place of the largest value at least.
MODULE_TOLERANCE = {"f32": Tolerance(2e-3, 2e-3), "f16": Tolerance(2**-10, 0.15, "eager")}


def environment(device):
    """Variables of a worker: it may use every core while it compiles, and takes no memory of the GPU in advance."""
    return dict(os.environ, XLA_PYTHON_CLIENT_PREALLOCATE="false", **({"JAX_PLATFORMS": "cpu"} if device == "cpu" else {}))
