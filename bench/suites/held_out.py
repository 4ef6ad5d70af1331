"""Held-out networks: torchvision's constructors, exported with seeded weights; Inductor gets torchvision's own modules."""
from . import torch_modules, torchvision_models
from .case import Case


def cases(suite, options):
    del suite
    batch, folder = options.batch or 1, options.folder / f"seed{options.seed}"
    for name in filter(options.keeps, torchvision_models.NAMES):
        path = folder / torch_modules.file_name(name, batch, options.exporter)
        spec = {"constructor": name, "seed": options.seed, "batch": batch}
        if torch_modules.export(spec, path, options.exporter):
            yield Case(name, path, "held-out", batch, torch=spec)
