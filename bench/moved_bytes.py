#!/usr/bin/env python3
"""Bytes that groups of a compiled model move, beside the counters of `ncu`: is the Q of MUE what the GPU moves?

  python bench/moved_bytes.py --dtype bf16                     the encoder layer of encoder_tables.py, both passes
  python bench/moved_bytes.py --artefact model.tw --groups 9   any model that is compiled for the GPU

Of the groups that read and write most, one row each: the least that they can move (Q of MUE), what their kernels read and
write by the plan, and what the counters say: bytes from and to DRAM, each kernel with cold caches, and through the L2
cache. Exit code 1 where fewer than --groups groups have DRAM bytes within 10 % of Q.

`ncu` needs the right to read counters, as root has it.
"""
import argparse
import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import artefacts  # noqa: E402
from paper import encoder  # noqa: E402

COUNTERS = ("dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_bytes.sum")
UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
NEAR = 0.10


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--artefact", type=pathlib.Path, help="default: the encoder layer, trained")
    p.add_argument("--function", help="of the artefact (default: of the encoder layer grads, else the first)")
    p.add_argument("--dtype", default="bf16", choices=["f32", "f16", "bf16"])
    p.add_argument("--target", default="cuda:sm_90a")
    p.add_argument("--train-flags", default="", help="passed to `tilewright train`")
    p.add_argument("--groups", type=int, default=5)
    p.add_argument("--ncu", default="ncu")
    p.add_argument("--tilewright", help="the command (default: the release build's, or that on PATH)")
    return p.parse_args()


def call(*words):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{words[0]} failed:\n{done.stderr or done.stdout}")
    return done.stdout


def counted(text):
    """What each kernel moved, in the order of their launches: [{counter: bytes}], of ncu's CSV."""
    rows, kernels = csv.DictReader(io.StringIO("\n".join(l for l in text.splitlines() if l.startswith('"')))), {}
    for row in rows:
        value = float(row["Metric Value"].replace(",", "")) * UNITS[row["Metric Unit"]]
        kernels.setdefault(int(row["ID"]), {})[row["Metric Name"]] = value
    return [kernels[number] for number in sorted(kernels)]


def by_group(groups, kernels):
    """[(group, {counter: bytes of all its kernels})]."""
    steps = sum(g["steps"] for g in groups)
    if steps != len(kernels):
        raise SystemExit(f"the plan has {steps} kernels, ncu saw {len(kernels)}: a library's call has several, "
                         "so compile with --libraries none")
    found, rest = [], iter(kernels)
    for g in groups:
        own = [next(rest) for _ in range(g["steps"])]
        found.append((g, {name: sum(k[name] for k in own) for name in COUNTERS}))
    return found


def markdown(rows):
    lines = ["| group | class | Q, MB | by the plan | DRAM | over Q | L2 |", "|---|---|---|---|---|---|---|"]
    for g, moved in rows:
        dram = moved[COUNTERS[0]] + moved[COUNTERS[1]]
        lines.append(f"| {g['name']} | {g['class']} | {g['bound_bytes'] / 1e6:.1f} | {g['moved_bytes'] / 1e6:.1f} "
                     f"| {dram / 1e6:.1f} | {dram / g['bound_bytes']:.2f} | {moved[COUNTERS[2]] / 1e6:.1f} |")
    return "\n".join(lines)


def largest(rows, count):
    return sorted(rows, key=lambda row: -row[0]["bound_bytes"])[:count]


def near(rows):
    """Those whose DRAM bytes are within 10 % of Q."""
    return [g for g, moved in rows if abs((moved[COUNTERS[0]] + moved[COUNTERS[1]]) / g["bound_bytes"] - 1) <= NEAR]


def trained(args, command, folder):
    model, artefact = folder / "encoder.onnx", folder / "encoder.train.tw"
    onnx.save(encoder.Layer(encoder.Sizes()).model(), model)
    call(command, "train", model, "--loss", "output", "--optimizer", "sgd", "--target", args.target, "--dtype", args.dtype,
         "--libraries", "none", *args.train_flags.split(), "-o", artefact)
    return artefact


def main():
    args = parse_arguments()
    command = artefacts.find_tools(args.tilewright).command
    with tempfile.TemporaryDirectory() as scratch:
        artefact = args.artefact or trained(args, command, pathlib.Path(scratch))
        function = args.function or ("" if args.artefact else "grads")
        words = ["--function", function] if function else []
        groups = json.loads(call(command, "analyze", artefact, "--no-run", "--json", *words))["groups"]
        text = call(args.ncu, "--clock-control", "none", "--csv", "--metrics", ",".join(COUNTERS), command, "run", artefact,
                    "--random", "seed=0", *words)
    rows = by_group(groups, counted(text))
    print(markdown(largest(rows, args.groups)))
    found = near(rows)
    print(f"\nDRAM bytes within {100 * NEAR:.0f} % of Q: {len(found)} of {len(rows)} groups")
    return 0 if len(found) >= args.groups else 1


if __name__ == "__main__":
    sys.exit(main())
