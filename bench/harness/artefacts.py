"""The tilewright command: finding it, compiling models with it, the FMA peak it measures."""
import dataclasses
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class CompileFailed(Exception):
    pass


@dataclasses.dataclass
class Tools:
    command: pathlib.Path
    library: pathlib.Path


def offer_libraries():
    """cuBLASLt and cuDNN of this interpreter's packages, which torch has: ours may use them too."""
    spec = importlib.util.find_spec("nvidia")
    roots = [pathlib.Path(root) for root in (spec and spec.submodule_search_locations) or []]
    folders = sorted({str(f.parent) for root in roots for name in ("libcublasLt.so.*", "libcudnn.so.*") for f in root.glob(f"*/lib/{name}")})
    if folders:
        os.environ.setdefault("TILEWRIGHT_LIBRARY_PATH", ":".join(folders))


def find_tools(command=None):
    """The command given, or the release build's, or the one on PATH; the nearest runtime library is looked for beside it."""
    offer_libraries()
    found = pathlib.Path(command or shutil.which("tilewright") or "")
    if not command:
        built = ROOT / "build" / "release" / "tools" / "tilewright"
        found = built if built.is_file() else found
    if not found.is_file():
        raise SystemExit("no tilewright command: build it (cmake --preset release) or pass --tilewright")
    for folder in list(found.resolve().parents)[:4]:
        libraries = sorted(folder.glob("**/libtilewright_rt.so"), key=lambda path: (len(path.parts), path))
        if libraries:
            return Tools(found.resolve(), libraries[0].resolve())
    raise SystemExit(f"no libtilewright_rt.so near {found}")


def compile_model(tools, model, flags, suffix=".tw"):
    """(artefact beside the model, seconds). A finished artefact is made again: the compiler may have changed."""
    model = pathlib.Path(model)
    artefact = model.with_name(model.stem + suffix)
    start = time.perf_counter()
    done = subprocess.run([tools.command, "compile", model, "-o", artefact, *flags], capture_output=True, text=True)
    if done.returncode != 0:
        raise CompileFailed((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    return artefact.resolve(), time.perf_counter() - start


def runs_alike(tools, one, other):
    """Whether two artefacts run the same: all sections are equal but those that say how each was made."""
    def sections(artefact):
        def inspect(*words):
            return subprocess.run([tools.command, "inspect", artefact, *words], capture_output=True, check=True).stdout
        names = [line.split()[1] for line in inspect().decode().splitlines() if line.strip().startswith("section ")]
        return {name: inspect("--section", name) for name in names if name not in ("plan", "source")}
    return sections(one) == sections(other)


def fma_peak(tools, artefact, cores):
    """GFLOP/s of independent FMAs on these cores, now; None when the command does not tell."""
    command = [tools.command, "bench", artefact, "--peak", "--json", f"--threads={len(cores)}", "--duration=0",
               "--warm-up=0"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))
    if done.returncode != 0:
        return None
    return (json.loads(done.stdout).get("rate") or {}).get("fma_peak_gflops")
