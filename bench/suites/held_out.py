"""Held-out networks: torchvision's constructors, exported with seeded weights; Inductor gets torchvision's own modules."""
import subprocess
import sys

from . import torchvision_models
from .case import Case


def cases(suite, options):
    del suite
    batch, folder = options.batch or 1, options.folder / f"seed{options.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in filter(options.keeps, torchvision_models.NAMES):
        path = folder / (f"{name}_b{batch}.onnx" if batch != 1 else f"{name}.onnx")
        if not path.exists():
            subprocess.run([sys.executable, torchvision_models.__file__, name, str(options.seed), str(batch), str(path)],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        torch = {"constructor": name, "seed": options.seed}
        yield Case(name, path, "held-out", batch, torch=torch)
