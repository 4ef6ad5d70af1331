#!/usr/bin/env python3
"""Keeps true what the pages say that the programs do.

  scripts/walkthrough.py --tilewright PATH --tw-opt PATH            writes the dumps in docs/internals/architecture.md
  scripts/walkthrough.py --tilewright PATH --tw-opt PATH --check    compares; exit code 1 and a diff when they differ
  scripts/walkthrough.py --tilewright PATH --commands [PAGE..]      runs the command blocks of README.md, docs/start and
      docs/guide, or of these pages; exit code 1 when one does not do what the page says (scripts/page_commands.py)

Dumps: compiles a small MatMul+bias+ReLU (made by scripts/make_models.py) for cpu:x86-64-v4 and for cuda:sm_80 with
--dump-ir, and puts each dump between `<!-- dump: NAME -->` and `<!-- end -->`.
Commands: --build FOLDER is what pages install from. With --python PATH, which has the wheel, only pages with Python
blocks are run, those blocks too; without it all pages, without them.
Exit code 77: not run, since no Python with onnx was found (TW_PYTHON, .venv, or this one).
"""
import argparse
import difflib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import page_commands

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "internals" / "architecture.md"
TARGET = "cpu:x86-64-v4"
SHAPE = "2,20,3"  # m, n, k: one full vector of 16 columns and a tail of 4
GPU_TARGET = "cuda:sm_80"
GPU_SHAPE = "32,32,128"  # two tiles, two blocks of K, four steps of a matrix instruction in each
BLOCK = re.compile(r"(<!-- dump: ([a-z -]+) -->\n```text\n)(.*?)(```\n<!-- end -->)", re.DOTALL)
NOT_RUN = 77


def call(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def python_with_onnx():
    for path in (os.environ.get("TW_PYTHON"), ROOT / ".venv/bin/python", sys.executable):
        if path and pathlib.Path(path).exists():
            if subprocess.run([path, "-c", "import onnx"], capture_output=True).returncode == 0:
                return path
    return None


def read_dumps(folder):
    """Dumps by phase and pass; "loop" is what is left after the last pass over loops."""
    found = {}
    for file in sorted(folder.iterdir()):
        phase, name = file.stem.split("_", 2)[1:]
        phase = phase.split("-")[0]
        found[f"{phase} {name}"] = file.read_text()
        if phase == "loop":
            found["loop"] = file.read_text()
    return found


def kernel_only(text):
    """CUDA C++ without what stands before the kernel: helpers that all kernels have."""
    return text[text.index('extern "C" __global__'):]


def gpu_dumps(args, python, folder):
    """The same for a GPU, each name after "gpu": of the last group, the product. None without NVRTC."""
    doctor = json.loads(call(args.tilewright, "doctor", "--json"))
    if doctor["nvrtc"] != "found":
        return {}
    model = folder / f"mlp_{GPU_SHAPE.replace(',', '_')}.onnx"
    call(python, ROOT / "scripts/make_models.py", folder, "--only", "--mlp", GPU_SHAPE)
    call(args.tilewright, "compile", model, "-o", folder / "gpu.tw", "--target", GPU_TARGET, "--dtype", "f16",
         "--no-measure", "--dump-ir", folder / "gpu", "--plan-out", folder / "gpu.twp")
    found = read_dumps(folder / "gpu")
    found["code cuda"] = kernel_only(found["code cuda"])
    found["plan"] = (folder / "gpu.twp").read_text()
    return {f"gpu {name}": text for name, text in found.items()}


def dumps(args, python, folder):
    """All blocks by name."""
    call(python, ROOT / "scripts/make_models.py", folder, "--only", "--mlp", SHAPE)
    model = folder / f"mlp_{SHAPE.replace(',', '_')}.onnx"
    call(args.tilewright, "compile", model, "-o", folder / "mlp.tw", "--target", TARGET, "--dump-ir", folder / "ir",
         "--plan-out", folder / "plan.twp")
    found = {"passes": call(args.tw_opt, "--list"), "plan": (folder / "plan.twp").read_text()}
    found |= read_dumps(folder / "ir")
    return found | gpu_dumps(args, python, folder)


def fill(page, found):
    def block(match):
        name = match.group(2)
        if name.startswith("gpu ") and not any(known.startswith("gpu ") for known in found):
            return match.group(0)
        if name not in found:
            sys.exit(f"{PAGE}: no dump '{name}'; there are: {', '.join(sorted(found))}")
        return match.group(1) + found[name].rstrip("\n") + "\n" + match.group(4)
    return BLOCK.sub(block, page)


def pages_with_commands(with_python):
    folders = [ROOT / "docs" / "start", ROOT / "docs" / "guide"]
    pages = [ROOT / "README.md", *(page for folder in folders for page in sorted(folder.glob("*.md")))]
    return [p for p in pages if not with_python or re.search("^```python$", p.read_text(), re.MULTILINE)]


def run_commands(args, python):
    """Runs the blocks of all pages with one database, so that what is measured once is known."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEWRIGHT_DB"] = f"{folder}/tuning.db"
        interpreter = pathlib.Path(args.python or python).absolute()  # whose python3 has onnx and numpy
        programs = [args.tilewright.absolute().parent, interpreter.parent]
        runner = page_commands.Runner(ROOT, args.build and args.build.absolute(), programs, args.python, python)
        for page in args.pages or pages_with_commands(args.python):
            runner.run_page(page.absolute())
    print(", ".join(f"{count} blocks {kind}" for kind, count in runner.counts.items()))
    return 1 if runner.counts["failed"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilewright", required=True, type=pathlib.Path)
    parser.add_argument("--tw-opt", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--commands", action="store_true")
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--python", type=pathlib.Path)
    parser.add_argument("pages", nargs="*", type=pathlib.Path, metavar="PAGE")
    args = parser.parse_args()
    if not args.commands and args.tw_opt is None:
        parser.error("the dumps need --tw-opt")
    python = python_with_onnx()
    if python is None:
        print("not run: no Python with onnx (scripts/setup_python.sh makes one)")
        return NOT_RUN
    return run_commands(args, python) if args.commands else bring_up_to_date(args, python)


def bring_up_to_date(args, python):
    with tempfile.TemporaryDirectory() as folder:
        found = dumps(args, python, pathlib.Path(folder))
    old = PAGE.read_text()
    if len(BLOCK.findall(old)) != old.count("<!-- dump:"):
        sys.exit(f"{PAGE}: a '<!-- dump: NAME -->' is not followed by a ```text block and '<!-- end -->'")
    new = fill(old, found)
    if not args.check:
        PAGE.write_text(new)
    elif new != old:
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), str(PAGE), "real dumps"))
        print(f"{PAGE.relative_to(ROOT)} is out of date: run this without --check, and read the text around the dumps")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
