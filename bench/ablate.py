#!/usr/bin/env python3
"""What each mechanism is worth: the same suite compiled with one mechanism after another switched off, in turns.

  PYTHON bench/ablate.py networks --threads 1 --quick
  PYTHON bench/ablate.py networks --target cuda:sm_90a --dtype f16 --batch 32
  PYTHON bench/ablate.py conv3x3 --without winograd="--disable-pass winograd"

Figures are times without the mechanism over times with all: 1.20 means that the mechanism takes a fifth off the
network's time, below 1 that it costs. A model whose code is the same without it says "same".
"""
import argparse
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import artefacts, edges, engines, gpu_engines, medians, options, report, rounds  # noqa: E402
import suites  # noqa: E402

ALL = "all"
# Mechanism: the flags that leave it out. Those that the compiler refuses are "failed" in the table.
MECHANISMS = {
    "layouts": "--disable-pass assign-layouts",
    "winograd": "--precision strict",
    "phases": "--disable-pass split-phases",
    "fusion": "--disable-pass fuse",
    "chains": "--disable-pass fuse-chains",
    "batch norm folding": "--disable-pass fold-batch-norm",
    "transpose sinking": "--disable-pass sink-transposes",
    "guard splitting": "--disable-pass split-guards",
    "measuring": "--no-measure",
}
GPU_MECHANISMS = {
    "channels last": "--disable-pass assign-layouts",
    "padded channels": "--disable-pass pad-channels",
    "fusion": "--disable-pass fuse",
    "merged products": "--disable-pass merge-products",
    "chains": "--disable-pass fuse-chains",
    "computed masks": "--disable-pass compute-masks",
    "moves met": "--disable-pass scale-products --disable-pass join-batches --disable-pass move-before-norms",
    "short rows": "--disable-family thread-rows",
    "packed products": "--disable-family packed",
    "rows reduced in tiles": "--disable-pass fuse-reductions",
    "templates": "--disable-family cutlass",
    "libraries": "--libraries none",
    "batch norm folding": "--disable-pass fold-batch-norm",
    "measuring": "--no-measure",
}


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_suite_arguments(p)
    p.add_argument("--without", action="append", default=[], metavar="NAME=FLAGS", type=options.named_flags,
                   help="one mechanism and what leaves it out (repeatable; default: all that are known)")
    args = p.parse_args()
    args.mechanisms = dict(args.without) or (GPU_MECHANISMS if options.on_gpu(args) else MECHANISMS)
    return args


def variants(case, args):
    """{mechanism: artefact} with ALL for none left out, None where it runs as ALL does; {mechanism: why it failed}."""
    model, base, failed = case.model, list(case.compile_flags), {}
    if options.on_gpu(args):
        _, model = edges.models(case, args.dtype)
        base += ["--target", args.target, "--dtype", args.dtype]
    made = {ALL: artefacts.compile_model(args.tools, model, base)[0]}
    for index, (name, flags) in enumerate(args.mechanisms.items()):
        try:
            path, _ = artefacts.compile_model(args.tools, model, base + flags.split(), f".without{index}.tw")
        except artefacts.CompileFailed as error:
            failed[name] = str(error)
            print(f"{case.name}, {name}: {error}", file=sys.stderr)
            continue
        made[name] = None if artefacts.runs_alike(args.tools, path, made[ALL]) else path
    return made, failed


def row(case, threads, call, args):
    with args.protocol.turn:
        made, failed = variants(case, args)
    with tempfile.TemporaryDirectory(prefix="tw-bench-") as folder:
        common = rounds.job(case, made[ALL], threads, args.tools.library, folder, call)
        tolerance, cores = rounds.TOLERANCE, rounds.available_cores(threads)
        if options.on_gpu(args):
            tolerance, cores = gpu_engines.TOLERANCE[args.dtype], rounds.every_core()
            common.update(model=str(edges.models(case, args.dtype)[0]), dtype=args.dtype, device="cuda")
        jobs = [rounds.labelled(common, engines.OURS, name, artefact=str(path)) for name, path in made.items() if path]
        measured = rounds.measure(jobs, cores, args.protocol, reference=ALL, tolerance=tolerance,
                                  pool=args.pool if options.on_gpu(args) else None)
    with_all = measured["engines"][ALL]["rounds"]
    costs = {name: None for name, path in made.items() if name != ALL}
    for name, facts in measured["engines"].items():
        if name != ALL:
            costs[name] = medians.median_bounds([b["median"] / a["median"]
                                                    for a, b in zip(with_all, facts["rounds"])])
    return {"case": case.name, "threads": threads, "costs": costs, "failed": {**failed, **measured["failed"]}}


def cell(row_, name):
    if name in row_["failed"]:
        return "failed"
    cost = row_["costs"][name]
    return f"{cost['median']:.3f} ({cost['low95']:.3f} to {cost['high95']:.3f})" if cost else "same"


def mean(rows, name):
    """Over the cases that could be measured without the mechanism."""
    costs = [r["costs"][name]["median"] if r["costs"][name] else 1.0 for r in rows if name not in r["failed"]]
    return f"{medians.geometric_mean(costs):.3f}" if costs else "failed"


def markdown(facts, rows, mechanisms):
    lines = [f"# {facts['suite']}: time without a mechanism over time with all", "",
             f"{facts['processor']}, {facts['vectors']}; {facts['dtype']}, seed {facts['seed']}.", facts['protocol'], "",
             "| case | threads | " + " | ".join(mechanisms) + " |", "|---|---|" + "---|" * len(mechanisms)]
    lines += [f"| {r['case']} | {r['threads']} | " + " | ".join(cell(r, m) for m in mechanisms) + " |" for r in rows]
    lines.append("| geometric mean | | " + " | ".join(mean(rows, m) for m in mechanisms) + " |")
    return "\n".join(lines) + "\n"


def write(stem, facts, rows, args):
    stem.with_suffix(".json").write_text(json.dumps({"schema": "tilewright.bench_ablation.v1", **facts, "rows": rows}))
    stem.with_suffix(".md").write_text(markdown(facts, rows, list(args.mechanisms)))


def main():
    args = parse_arguments()
    args.tools, args.protocol, chosen = options.prepare(args)
    facts, rows = options.facts(args, mechanisms=args.mechanisms), []
    report.print_facts(facts)
    call = options.call_model(args, chosen)
    stem = args.out / f"{facts['suite']}-ablation"
    with rounds.Pool() as args.pool:
        for case in suites.cases(args.suite, chosen):
            for threads in [1] if options.on_gpu(args) else args.threads:
                rows.append(row(case, threads, call, args))
                print(f"{case.name:28} {threads}t  " + "  ".join(f"{m} {cell(rows[-1], m)}" for m in args.mechanisms),
                      flush=True)
                write(stem, facts, rows, args)
    print("\n" + stem.with_suffix(".md").read_text().splitlines()[-1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
