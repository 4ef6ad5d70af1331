"""The C interface of include/tilewright/runtime.h through ctypes: load an artefact, bind arrays, run.

A run is one foreign call with arguments made beforehand: about a microsecond over the same call from C.
"""
import ctypes as c
import os

import numpy as np

API_VERSION = 7
CPU, CUDA = 1, 2  # kDLCPU, kDLCUDA
_KINDS = {"i": 0, "u": 1, "f": 2, "b": 6}  # DLPack type codes by numpy kind
_BOOL = 6


class DataType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class Device(c.Structure):
    _fields_ = [("type", c.c_int), ("id", c.c_int)]


class Tensor(c.Structure):
    """DLTensor of dlpack.h."""
    _fields_ = [("data", c.c_void_p), ("device", Device), ("ndim", c.c_int32), ("dtype", DataType),
                ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


class Options(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("threads", c.c_int32), ("device", c.c_int32), ("profile", c.c_int32),
                ("allocate", c.c_void_p), ("deallocate", c.c_void_p), ("allocator_user", c.c_void_p),
                ("log", c.c_void_p), ("log_user", c.c_void_p)]


class TensorInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("name", c.c_char_p), ("dtype", DataType), ("ndim", c.c_int32),
                ("shape", c.POINTER(c.c_int64))]


class StepTime(c.Structure):
    _fields_ = [("name", c.c_char_p), ("ns", c.c_uint64)]


class FunctionInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("name", c.c_char_p), ("first_entry", c.c_int32), ("entry_count", c.c_int32),
                ("input_count", c.c_int32), ("output_count", c.c_int32), ("changes_state", c.c_int32)]


_P = c.c_void_p
_FUNCTIONS = [  # in the order of TwApi: name, result, arguments
    ("version_string", c.c_char_p, []),
    ("status_code", c.c_int, [_P]),
    ("status_message", c.c_char_p, [_P]),
    ("status_exit_code", c.c_int, [_P]),
    ("status_free", None, [_P]),
    ("model_load_file", _P, [c.c_char_p, c.POINTER(Options), c.POINTER(_P)]),
    ("model_load_memory", _P, [_P, c.c_size_t, c.POINTER(Options), c.POINTER(_P)]),
    ("model_free", None, [_P]),
    ("entry_count", c.c_int32, [_P]),
    ("entry_name", c.c_char_p, [_P, c.c_int32]),
    ("input_count", c.c_int32, [_P]),
    ("output_count", c.c_int32, [_P]),
    ("input_info", _P, [_P, c.c_int32, c.c_int32, c.POINTER(TensorInfo)]),
    ("output_info", _P, [_P, c.c_int32, c.c_int32, c.POINTER(TensorInfo)]),
    ("find_entry", _P, [_P, c.POINTER(Tensor), c.c_int32, c.POINTER(c.c_int32)]),
    ("context_create", _P, [_P, c.POINTER(Options), c.POINTER(_P)]),
    ("context_free", None, [_P]),
    ("context_threads", c.c_int32, [_P]),
    ("run", _P, [_P, c.POINTER(Tensor), c.c_int32, c.POINTER(Tensor), c.c_int32]),
    ("run_entry", _P, [_P, c.c_int32, c.POINTER(Tensor), c.POINTER(Tensor)]),
    ("last_profile", _P, [_P, c.POINTER(StepTime), c.c_size_t, c.POINTER(c.c_size_t)]),
    ("buffer_count", c.c_int32, [_P, c.c_int32]),
    ("buffer_info", _P, [_P, c.c_int32, c.c_int32, _P]),
    ("read_buffer", _P, [_P, c.c_int32, _P, c.c_size_t]),
    ("model_target", c.c_char_p, [_P]),
    ("measure_entry", _P, [_P, c.c_int32, c.POINTER(Tensor), c.POINTER(Tensor), c.POINTER(c.c_uint64), c.c_size_t]),
    ("state_count", c.c_int32, [_P]),
    ("state_info", _P, [_P, c.c_int32, c.POINTER(TensorInfo)]),
    ("state_create", _P, [_P, c.POINTER(Options), c.POINTER(_P)]),
    ("state_free", None, [_P]),
    ("context_state", _P, [_P, c.POINTER(_P)]),
    ("state_get", _P, [_P, c.c_int32, c.POINTER(Tensor)]),
    ("state_set", _P, [_P, c.c_int32, c.POINTER(Tensor)]),
    ("state_reset", _P, [_P]),
    ("state_save", _P, [_P, c.c_char_p]),
    ("state_load", _P, [_P, c.c_char_p]),
    ("run_async", _P, [_P, c.c_int32, c.POINTER(Tensor), c.POINTER(Tensor), _P]),
    ("model_metadata", c.c_char_p, [_P]),
    ("status_details", c.c_char_p, [_P]),
    ("function_count", c.c_int32, [_P]),
    ("function_info", _P, [_P, c.c_int32, c.POINTER(FunctionInfo)]),
    ("find_function", _P, [_P, c.c_char_p, c.POINTER(c.c_int32)]),
]


class Api(c.Structure):
    _fields_ = [("version", c.c_uint32), ("struct_size", c.c_size_t)] + [
        (name, c.CFUNCTYPE(result, *arguments)) for name, result, arguments in _FUNCTIONS]


def load_api(library):
    shared = c.CDLL(library)
    shared.tw_get_api.restype = c.POINTER(Api)
    api = shared.tw_get_api(c.c_uint32(API_VERSION))
    if not api:
        raise RuntimeError(f"{library} is older than interface version {API_VERSION}")
    return api.contents


def numpy_type(dtype):
    if dtype.code == _BOOL:
        return np.dtype(bool)
    kind = {code: kind for kind, code in _KINDS.items()}[dtype.code]
    return np.dtype(f"{kind}{dtype.bits // 8}")


def aligned_empty(shape, dtype):
    """An array that begins at a cache line, as a caller who cares would give it."""
    count = int(np.prod(shape)) * dtype.itemsize
    raw = np.empty(count + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:start + count].view(dtype).reshape(shape)


class Model:
    """One artefact with one context; `bind` fixes the inputs, `run` computes, `outputs` are numpy arrays."""

    def __init__(self, library, path, threads, profile=False):
        self.api = load_api(library)
        options = Options(struct_size=c.sizeof(Options), threads=threads, profile=profile)
        self._model, self._context = _P(), _P()
        self._check(self.api.model_load_file(os.fsencode(path), c.byref(options), c.byref(self._model)))
        self._check(self.api.context_create(self._model, c.byref(options), c.byref(self._context)))
        self.version = self.api.version_string().decode()
        self.outputs = {}

    def _check(self, status):
        if status:
            message = self.api.status_message(status).decode()
            self.api.status_free(status)
            raise RuntimeError(message)

    def _infos(self, count, query):
        for index in range(count):
            info = TensorInfo(struct_size=c.sizeof(TensorInfo))
            self._check(query(self._model, 0, index, c.byref(info)))
            yield info.name.decode(), numpy_type(info.dtype), [info.shape[d] for d in range(info.ndim)]

    def _tensor(self, array):
        shape = (c.c_int64 * array.ndim)(*array.shape)
        self._kept += [array, shape]
        kind = DataType(_KINDS[array.dtype.kind], array.dtype.itemsize * 8, 1)
        return Tensor(array.ctypes.data, Device(CPU, 0), array.ndim, kind, shape, None, 0)

    def _set_states(self, feeds):
        """What the artefact keeps begins with the feeds of that name."""
        infos = self._infos(self.api.state_count(self._model),
                            lambda model, entry, index, info: self.api.state_info(model, index, info))
        state = _P()
        self._check(self.api.context_state(self._context, c.byref(state)))
        for index, (name, dtype, shape) in enumerate(infos):
            array = aligned_empty(shape, dtype)
            array[...] = feeds[name]
            self._check(self.api.state_set(state, index, c.byref(self._tensor(array))))
        self.api.state_free(state)

    def bind(self, feeds):
        """Inputs by name; outputs are allocated here once."""
        self._kept, inputs, outputs = [], [], []
        self._set_states(feeds)
        for name, dtype, shape in self._infos(self.api.input_count(self._model), self.api.input_info):
            array = aligned_empty(shape, dtype)
            array[...] = feeds[name]
            inputs.append(self._tensor(array))
        for name, dtype, shape in self._infos(self.api.output_count(self._model), self.api.output_info):
            self.outputs[name] = aligned_empty(shape, dtype)
            outputs.append(self._tensor(self.outputs[name]))
        self._inputs, self._outputs = (Tensor * len(inputs))(*inputs), (Tensor * len(outputs))(*outputs)
        self._arguments = (self._context, self._inputs, len(inputs), self._outputs, len(outputs))
        self._run = self.api.run

    def bind_sets(self, sets, device):
        """Several inputs, each in a place of its own, and one place for the outputs; "cuda": in the GPU's memory."""
        self._kept, self._sets = [], []
        self._set_states(sets[0])
        for feeds in sets:
            tensors = []
            for name, dtype, shape in self._infos(self.api.input_count(self._model), self.api.input_info):
                array = aligned_empty(shape, dtype)
                array[...] = feeds[name]
                tensors.append(self._placed(array, device))
            self._sets.append((Tensor * len(tensors))(*tensors))
        tensors, self._fetch = [], []
        for _, dtype, shape in self._infos(self.api.output_count(self._model), self.api.output_info):
            tensors.append(self._placed(aligned_empty(shape, dtype), device))
            self._fetch.append(self._kept[-1])
        self._outputs = (Tensor * len(tensors))(*tensors)

    def _placed(self, array, device):
        """Where the array lies is the last of self._kept afterwards."""
        tensor = self._tensor(array)
        if device == "cuda":
            import torch  # lends its memory
            self._kept.append(torch.from_numpy(array).cuda())
            tensor.data, tensor.device = self._kept[-1].data_ptr(), Device(CUDA, 0)
        else:
            self._kept.append(array)
        return tensor

    def measure(self, index, count):
        """Times in ms of `count` runs in a row on the inputs of that index."""
        times = (c.c_uint64 * count)()
        self._check(self.api.measure_entry(self._context, 0, self._sets[index], self._outputs, times, count))
        return [t / 1e6 for t in times]

    def fetched_outputs(self):
        return [np.array(a.cpu() if hasattr(a, "cpu") else a) for a in self._fetch]

    def run(self):
        status = self._run(*self._arguments)
        if status:
            self._check(status)

    def last_profile(self):
        """[(label, microseconds)] of the last run's steps; for models loaded with profile=True."""
        count = c.c_size_t()
        self._check(self.api.last_profile(self._context, None, 0, c.byref(count)))
        steps = (StepTime * count.value)()
        self._check(self.api.last_profile(self._context, steps, count.value, c.byref(count)))
        return [(step.name.decode(), step.ns / 1e3) for step in steps]
