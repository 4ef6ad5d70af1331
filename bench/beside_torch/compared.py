"""Gradients of the mean of (y - labels)^2 for all parameters of a torch module: those of an artefact of
`tilewright train`, made of what an exporter writes, beside torch's autograd in f64."""
import contextlib
import copy
import dataclasses
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import torch

OPSETS = {"torchscript": 17, "dynamo": 20}
TOLERANCE = 1e-4  # of the largest gradient of the parameter
WORSE_THAN_TORCH = 20  # times the error of torch in f32, where that is larger: what rounding does to this module,
MOST = 5e-3  # but no more than this
SMALL = 1e-3  # of the largest gradient of all parameters: errors of a parameter's are measured by no less
ZERO, OF_ZERO = 1e-10, 0.1  # a gradient that is 0 but for rounding in f64, and what its error is measured by


class NoModel(Exception):
    """The exporter writes none: not ours to mend."""


@dataclasses.dataclass
class Result:
    verdict: str  # "right", "wrong", "refused": no artefact; "not compared": why is the exporter's
    detail: str = ""
    error: float = 0.0  # the largest of any parameter, and torch's in f32 for the same
    torch_error: float = 0.0
    parameters: int = 0
    draws: int = 1


@contextlib.contextmanager
def _silence():
    """Of the process, not of Python alone: torchscript prints its graph where it fails."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept, nowhere = [os.dup(1), os.dup(2)], os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        for number, file in zip((1, 2), kept):
            os.dup2(file, number)
            os.close(file)
        os.close(nowhere)


def export(module, inputs, path, exporter):
    """In the mode that the module is in. torch.onnx.export of both kinds, as its documentation has them for training."""
    words = {"torchscript": {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False},
             "dynamo": {"verbose": False, "optimize": False}}[exporter]
    names = list(inputs)
    with warnings.catch_warnings(), _silence():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(copy.deepcopy(module), tuple(inputs.values()), str(path), dynamo=exporter == "dynamo",
                              opset_version=OPSETS[exporter], input_names=names, output_names=["y"], **words)
        except Exception as error:  # noqa: BLE001: exporters raise whatever they meet
            raise NoModel(str(error).strip().splitlines()[0][:200]) from error


def autograd(module, inputs, labels, dtype):
    """(loss, gradients by name); parameters that the loss does not depend on are left out."""
    module = copy.deepcopy(module).to(dtype)
    floats = [x.to(dtype) if x.is_floating_point() else x for x in inputs.values()]
    loss = torch.nn.functional.mse_loss(module(*floats), labels.to(dtype))
    loss.backward()
    found = {name: p.grad.double().numpy() for name, p in module.named_parameters(remove_duplicate=False) if p.grad is not None}
    return float(loss.detach()), found


def _call(tools, folder, *words):
    done = subprocess.run([tools.command, *map(str, words)], capture_output=True, text=True, cwd=folder)
    return done.returncode, done.stdout, done.stderr.strip()


def artefact_gradients(tools, model, inputs, labels, folder, flags):
    """(loss, gradients by the names of initializers); raises ValueError with what the command says."""
    artefact = folder / "model.tw"
    code, out, err = _call(tools, folder, "train", model, "--loss", "mse", "--optimizer", "sgd", "--json", "-o", artefact, *flags)
    if code != 0:
        raise ValueError(f"train: {err.splitlines()[-1] if err else code}"[:400])
    code, out, err = _call(tools, folder, "inspect", artefact, "--json")
    entry = next(e for e in json.loads(out)["manifest"]["entries"] if e["function"] == "grads")
    words = []
    feeds = dict({name: x.numpy() for name, x in inputs.items()}, labels=labels.numpy())
    for given in entry["inputs"]:
        np.save(folder / f"{given['name']}.npy", np.ascontiguousarray(feeds[given["name"]]))
        words += ["--input", f"{given['name']}=@{folder / given['name']}.npy"]
    names = [output["name"] for output in entry["outputs"]]
    for k, name in enumerate(names):
        words += ["--output", f"{name}=@{folder}/out{k}.npy"]
    code, out, err = _call(tools, folder, "run", artefact, "--function", "grads", *words)
    if code != 0:
        raise ValueError(f"run: {err}"[:400])
    values = {name: np.load(folder / f"out{k}.npy").astype(np.float64) for k, name in enumerate(names)}
    return float(values.pop("loss")), {name.removesuffix(".grad"): value for name, value in values.items()}


def named_as_torch(gradients, initializers, module):
    """{torch's name: gradient}. Exporters give some parameters other names, and store them transposed: those are told by
    their elements."""
    parameters = {name: p.detach().numpy() for name, p in module.named_parameters(remove_duplicate=False)}
    found = {name: g for name, g in gradients.items() if name in parameters and g.shape == parameters[name].shape}
    for name, gradient in gradients.items():
        if name in found:
            continue
        value = initializers[name]
        for theirs, parameter in parameters.items():
            if theirs in found or parameter.size != value.size:
                continue
            if np.array_equal(value.reshape(-1), parameter.reshape(-1)):
                found[theirs] = gradient.reshape(parameter.shape)
            elif parameter.ndim == 2 and np.array_equal(np.squeeze(value), parameter.T):
                found[theirs] = np.squeeze(gradient).T
            else:
                continue
            break
    return found


def _is_folded(name, module, initializers):
    """Whether no initializer has the parameter's elements, in whatever order."""
    want = np.sort(module.get_parameter(name).detach().numpy(), axis=None)
    return not any(value.size == want.size and np.array_equal(np.sort(value, axis=None), want)
                   for value in initializers.values())


def _is_refused_by_others(path, inputs):
    """Exporters write models now and then that are none: biases of two dimensions, say."""
    onnxruntime.set_default_logger_severity(4)
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        session.run(None, {name: x.numpy() for name, x in inputs.items()})
    except Exception:  # noqa: BLE001: of many types
        return True
    return False


def _errors(want, got):
    """By name, of the largest gradient of the parameter. One that is zero by its nature, as of a bias before a norm, is
    what rounding leaves of terms that are as large as other gradients."""
    largest = {name: float(np.abs(g).max(initial=0)) for name, g in want.items()}
    of_all = max(largest.values(), default=0.0)

    def scale(name):
        return max(largest[name], (SMALL if largest[name] > ZERO * of_all else OF_ZERO) * of_all, 1e-30)
    return {name: float(np.abs(g - got[name]).max(initial=0)) / scale(name) for name, g in want.items() if name in got}


def compare(tools, module, inputs, folder, exporter, flags=("--no-measure",)):
    """The verdict on a module in the mode that it is in, its inputs by name."""
    path = folder / "model.onnx"
    with torch.no_grad():
        y = copy.deepcopy(module)(*inputs.values())
    labels = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))
    loss, want = autograd(module, inputs, labels, torch.float64)
    _, theirs = autograd(module, inputs, labels, torch.float32)
    try:
        export(module, inputs, path, exporter)
    except NoModel as error:
        return Result("not compared", f"{exporter} writes no model: {error}")
    initializers = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    try:
        our_loss, gradients = artefact_gradients(tools, path, inputs, labels, folder, flags)
    except ValueError as error:
        return Result("not compared" if _is_refused_by_others(path, inputs) else "refused", str(error))
    ours = named_as_torch(gradients, initializers, module)
    lacking = [name for name in want if name not in ours and np.abs(want[name]).max() > 0]
    folded = [name for name in lacking if _is_folded(name, module, initializers)]
    if folded:
        return Result("not compared", f"{exporter} folded {', '.join(folded)}")
    return judge(want, ours, theirs, lacking, (loss, our_loss))


def judge(want, ours, theirs, lacking, losses):
    """Of gradients by name: torch's in f64, ours, torch's in f32; of names that ours lack, and of the two losses."""
    errors, theirs = _errors(want, ours), _errors(want, theirs)
    wrong = [f"'{name}' {list(want[name].shape)} by {errors[name]:.1e} (torch in f32: {theirs[name]:.1e})"
             for name in errors if not errors[name] <= max(TOLERANCE, min(MOST, WORSE_THAN_TORCH * theirs[name]))]
    wrong += [f"'{name}' {list(want[name].shape)} has none" for name in lacking]
    if not abs(losses[0] - losses[1]) <= 1e-4 * (abs(losses[0]) + 1e-3):
        wrong.insert(0, f"loss {losses[1]:.6g}, torch {losses[0]:.6g}")
    worst = max(errors, key=errors.get, default=None)
    return Result("wrong" if wrong else "right", "; ".join(wrong), errors.get(worst, 0.0), theirs.get(worst, 0.0), len(errors))
