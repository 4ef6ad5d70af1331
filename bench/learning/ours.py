"""Training with an artefact of `tilewright train`, and what it has learnt by one of `tilewright compile`."""
import ctypes
import os
import subprocess

import numpy as np

from harness import tilewright_runtime as rt


class Trainer(rt.Model):
    """One step a call; parameters, moments and the count of steps stay in the artefact's state."""

    def __init__(self, library, artefact, threads=1):
        super().__init__(library, artefact, threads)
        self._kept, self._arrays, inputs = [], {}, []
        for name, dtype, shape in self._infos(self.api.input_count(self._model), self.api.input_info):
            self._arrays[name] = rt.aligned_empty(shape, dtype)
            inputs.append(self._tensor(self._arrays[name]))
        self._loss = rt.aligned_empty([], np.dtype(np.float32))
        self._inputs, self._outputs = (rt.Tensor * len(inputs))(*inputs), (rt.Tensor * 1)(self._tensor(self._loss))
        self._arguments = (self._context, self._inputs, len(inputs), self._outputs, 1)
        self._run = self.api.run
        self._state = rt._P()
        self._check(self.api.context_state(self._context, ctypes.byref(self._state)))

    def step(self, **feeds):
        for name, array in self._arrays.items():
            array[...] = feeds[name]
        self.run()
        return self._loss.copy()[()]

    def begin(self, weights):
        """At the first step, with these parameters."""
        self._check(self.api.state_reset(self._state))
        for index, (name, _, _) in enumerate(self._state_infos()):
            if name in weights:
                self._check(self.api.state_set(self._state, index, ctypes.byref(self._tensor(weights[name]))))

    def save(self, path):
        """All states, atomically."""
        self._check(self.api.state_save(self._state, os.fsencode(path)))

    def load(self, path):
        self._check(self.api.state_load(self._state, os.fsencode(path)))

    def states(self):
        """{name: array}."""
        found = {}
        for index, (name, dtype, shape) in enumerate(self._state_infos()):
            found[name] = rt.aligned_empty(shape, dtype)
            self._check(self.api.state_get(self._state, index, ctypes.byref(self._tensor(found[name]))))
        return found


    def _state_infos(self):
        return self._infos(self.api.state_count(self._model),
                           lambda model, entry, index, info: self.api.state_info(model, index, info))


def call(tools, *words):
    done = subprocess.run([tools.command, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"tilewright {words[0]} failed:\n{done.stderr}")


def make_step(tools, task, weights, folder, flags=()):
    """Path of the artefact of a training step that begins with these weights."""
    model, artefact = folder / f"{task.name}.onnx", folder / f"{task.name}.train.tw"
    model.write_bytes(task.model(weights, task.batch, training=True))
    call(tools, "train", model, "--loss", task.loss, "--optimizer", "adamw", "--weight-decay", task.decay, *flags,
         "-o", artefact)
    return artefact


def curve(task, trainer, seed, steps, first=0, after=None):
    """Losses of the steps from `first` on; after(step) is called behind each."""
    losses = []
    for step in range(first, steps):
        rate = np.float32(task.rate(step))
        losses.append(trainer.step(**task.batch_of(seed, step), learning_rate=rate, seed=np.int64(seed)))
        if after:
            after(step, losses[-1])
    return np.array(losses)


def score(tools, task, weights, folder):
    """What the weights make of held-out data, by an artefact for inference."""
    inputs, _ = task.held_out
    model, artefact = folder / f"{task.name}.trained.onnx", folder / f"{task.name}.trained.tw"
    model.write_bytes(task.model(weights, len(inputs), training=False))
    call(tools, "compile", model, "--no-measure", "-o", artefact)
    trained = rt.Model(tools.library, artefact, 1)
    trained.bind({"x": inputs})
    trained.run()
    return task.held_out_score(trained.outputs["y"])
