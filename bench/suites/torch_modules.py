"""torch modules by specification, and what their exporters write. A specification has "seed" and "batch", and

  {"constructor": NAME}                                 for a network of torchvision's (torchvision_models.py)
  {"network": NAME, "tokens": N, "small": bool}         for one of the package transformers (transformer_modules.py)
  {"operator": SPECIFICATION}                           for a gradient of a convolution (conv_gradients.py)

  python3 -m suites.torch_modules SPECIFICATION OUT.onnx EXPORTER     (in bench/) exports one, with inputs in OUT.npz

Imports torch only where a module is built, in a process of its own: the runner has none.
"""
import importlib
import json
import pathlib
import subprocess
import sys
import tempfile

OPSETS = {"torchscript": 17, "dynamo": 20}
STATE, NEXT_STATE = "past", "present"  # and a number: inputs that a model keeps, and what they become


def _source(spec):
    names = {"constructor": "torchvision_models", "operator": "conv_gradients", "network": "transformer_modules"}
    name = next(module for key, module in names.items() if key in spec)
    return importlib.import_module("." + name, __package__)


def build(spec, is_exporting=False):
    """Exported, modules that keep a state give what it becomes behind their outputs; otherwise they change it."""
    return _source(spec).build(spec, is_exporting)


def output_names(inputs, count):
    kept = [name for name in inputs if name.startswith(STATE)]
    return [f"y{i}" for i in range(count - len(kept))] + [name.replace(STATE, NEXT_STATE) for name in kept]


def write(spec, path, exporter):
    """The model, beside it the weights where the exporter takes a file for them, and the inputs."""
    import numpy as np
    import torch
    torch.set_grad_enabled(False)
    torch.backends.mha.set_fastpath_enabled(False)  # an operator for which there is no ONNX
    module = build(spec, is_exporting=True)
    feeds = _source(spec).feeds(spec, module)
    inputs = tuple(torch.from_numpy(array) for array in feeds.values())
    outputs = module(*inputs)
    names = output_names(feeds, len(outputs) if isinstance(outputs, tuple) else 1)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        temporary = pathlib.Path(folder) / path.name
        torch.onnx.export(module, inputs, str(temporary), dynamo=exporter == "dynamo", opset_version=OPSETS[exporter],
                          input_names=list(feeds), output_names=names)
        np.savez(path.with_suffix(".npz"), **feeds)
        for file in sorted(pathlib.Path(folder).iterdir(), key=lambda file: file == temporary):  # the model last
            file.replace(path.parent / file.name)


def export(spec, path, exporter):
    """The same in a process of its own, unless the file is there. Whether it is then; why not is said on stderr."""
    if path.exists():
        return True
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", __name__, json.dumps(spec), str(path.resolve()), exporter]
    done = subprocess.run(command, cwd=pathlib.Path(__file__).resolve().parent.parent, capture_output=True, text=True)
    if done.returncode != 0:
        why = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
        print(f"{path.stem}: not run: {exporter} wrote no model: {why[-1][:300]}", file=sys.stderr)
    return done.returncode == 0


def file_name(name, batch, exporter):
    return name + f"_b{batch}" * (batch != 1) + f"_{exporter}" * (exporter != "torchscript") + ".onnx"


if __name__ == "__main__":
    write(json.loads(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
