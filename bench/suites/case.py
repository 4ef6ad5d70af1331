"""What a suite is made of, and how its models come to be."""
import dataclasses
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@dataclasses.dataclass
class Options:
    """Of a suite: where models go, the seed, the batch (None: the suite's own), names to keep (empty: all), whether a GPU is
    measured, whether sizes are small (of suites that have such), which of torch's exporters writes models, whether those of a
    suite of many GB stay."""
    folder: pathlib.Path
    seed: int = 0
    batch: int | None = None
    only: tuple = ()
    on_gpu: bool = False
    small: bool = False
    exporter: str = "torchscript"
    keep_models: bool = False

    def keeps(self, name):
        return not self.only or any(part in name for part in self.only)


@dataclasses.dataclass
class Case:
    """One model: an ONNX file with its inputs in an .npz, beside it where feeds_file says nothing else. `torch` names the
    module that it was exported from: torch on a CPU runs that, and with own_module on a GPU, too. `compile_flags` belong to
    the model, as the states that it keeps do."""
    name: str
    model: pathlib.Path
    family: str
    batch: int
    flop: float = 0.0
    torch: dict | None = None
    feeds_file: pathlib.Path | None = None
    own_module: bool = False
    compile_flags: tuple = ()

    @property
    def feeds(self):
        return self.feeds_file or self.model.with_suffix(".npz")


def make_models(folder, arguments):
    """Runs scripts/make_models.py; files with the same options that exist are kept."""
    script = ROOT / "scripts" / "make_models.py"
    command = [sys.executable, str(script), str(folder), "--inputs", "--skip-existing", *map(str, arguments)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def make_operators(specs, family_of, options):
    """Cases of one-operator models from specs (scripts/models/operators.py)."""
    specs = [s for s in specs if options.keeps(s["name"])]
    folder = options.folder / f"seed{options.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    listing = folder / "operators.json"
    listing.write_text(json.dumps(specs))
    make_models(folder, ["--only", "--operators", listing, "--seed", options.seed])
    return [Case(s["name"], folder / f"{s['name']}.onnx", family_of(s), s.get("batch", 1), flop(s)) for s in specs]


def flop(spec):
    """Multiplications and additions of a contraction; 0 for other operators."""
    sys.path.insert(0, str(ROOT / "scripts"))
    from models import operators
    return float(operators.flop(spec))


def call_case(options):
    """ReLU of one element: what it takes is what an engine's call costs."""
    spec = {"name": "call", "op": "elementwise", "kind": "Relu", "shape": [1, 1]}
    return make_operators([spec], lambda s: "call", dataclasses.replace(options, only=(), folder=options.folder / "call"))[0]
