#!/usr/bin/env python3
"""Compares Tilewright with onnxruntime, OpenVINO and torch Inductor: one suite, the same cores, in turns. On a GPU with
torch eager, Inductor (plain, frozen, max-autotune) and XLA.

  bash bench/setup.sh                                                    once; prints the interpreter to use
  PYTHON bench/run.py networks                                           eight networks, 1 and 2 threads
  PYTHON bench/run.py networks --quick --only resnet --threads 1         while developing
  PYTHON bench/run.py depthwise --engines tilewright,onnxruntime
  PYTHON bench/run.py networks --target cuda:sm_90a --dtype f16 --batch 32
  PYTHON bench/run.py networks --target cuda:sm_90a --dtype f16 --variant own="--libraries none"

Ratios are a peer's time over Tilewright's: above 1, Tilewright is faster. Results: OUT/SUITE.json, .md and .svg.
"""
import argparse
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import artefacts, edges, engines, floors, gpu_engines, options, plots, ratios, report, rounds  # noqa: E402
import suites  # noqa: E402


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_suite_arguments(p)
    p.add_argument("--engines", help=f"comma separated (default: {', '.join(engines.ENGINES)}; on a GPU "
                                     f"{', '.join(gpu_engines.ENGINES)}, of transformers without max-autotune)")
    p.add_argument("--compile-flags", default="", help="passed to `tilewright compile`, for example '--no-measure'")
    p.add_argument("--variant", action="append", default=[], metavar="NAME=FLAGS", type=options.named_flags,
                   help="Tilewright with these flags too, in the same run, as 'tilewright:NAME' (repeatable)")
    args = p.parse_args()
    args.variants = {**suites.VARIANTS.get(args.suite, {}), **dict(args.variant)}
    args.engines = (args.engines or ",".join(default_engines(args))).split(",")
    return args


def default_engines(args):
    return suites.GPU_ENGINES.get(args.suite, gpu_engines.ENGINES) if options.on_gpu(args) else engines.ENGINES


def compiled(model, flags, args, live):
    """(artefact, seconds) as users have it; {label: artefact} with the flags of each variant. What fails is missing."""
    made = {}
    for index, (name, own) in enumerate({"": "", **args.variants}.items()):
        try:
            made[name] = artefacts.compile_model(args.tools, model, flags + own.split(), f".{index}.tw" if name else ".tw")
        except artefacts.CompileFailed as error:
            live.note(str(error))
            made[name] = pathlib.Path("missing"), None
    return made.pop(""), {f"{engines.OURS}:{name}": str(artefact) for name, (artefact, _) in made.items()}


def jobs_of(common, names, variants):
    return [rounds.labelled(common, name) for name in names] + [
        rounds.labelled(common, engines.OURS, label, artefact=artefact) for label, artefact in variants.items()]


def compare_on_gpu(case, args, device="cuda"):
    """The row of one case. `device` is "cpu" in tests of the harness."""
    live = report.Live(case.name)
    live("compiling")
    model, ours = edges.models(case, args.dtype)
    flags = ["--target", args.target, "--dtype", args.dtype, *case.compile_flags, *args.compile_flags.split()]
    with args.protocol.turn:  # the compiler measures
        (artefact, seconds), variants = compiled(ours, flags, args, live)
    with tempfile.TemporaryDirectory(prefix="tw-bench-") as folder:
        common = dict(rounds.job(case, artefact, 1, args.tools.library, folder), model=str(model), dtype=args.dtype,
                      device=device)
        names = [gpu_engines.REFERENCE, *[gpu_engines.EMPTY] * has_floor(case, args), *args.engines]
        tolerance = (gpu_engines.MODULE_TOLERANCE if case.own_module else gpu_engines.TOLERANCE)[args.dtype]
        measured = rounds.measure(jobs_of(common, names, variants), rounds.every_core(), args.protocol, live,
                                  gpu_engines.REFERENCE, tolerance, args.pool)
    row = gpu_row(case, measured, args)
    row["compile_s"] = seconds
    live.done(report.line(row))
    return [row]


def has_floor(case, args):
    """Contractions have one, on a GPU whose rates are known."""
    return bool(case.flop and args.rates)


def gpu_row(case, measured, args):
    """With the floor where the case has one: an empty kernel ran in the same rounds then."""
    empty = measured["engines"].pop(gpu_engines.EMPTY, None)
    row = dict(ratios.row(case, 1, measured, args.dtype), peak_gflops=None)
    if empty:
        row["peak_gflops"] = args.rates["flop_per_ms"] / 1e6
        row["floor"] = floors.floor(floors.fused_bytes(case.model, args.dtype), case.flop, args.rates,
                                    ratios.latency(empty["rounds"])["median"])
    return row


def compare(case, call, args):
    """Rows of one case, one for each number of threads."""
    live = report.Live(case.name)
    live("compiling")
    (artefact, seconds), variants = compiled(case.model, [*case.compile_flags, *args.compile_flags.split()], args, live)
    for threads in args.threads:
        cores = rounds.available_cores(threads)
        with tempfile.TemporaryDirectory(prefix="tw-bench-") as folder:
            common = rounds.job(case, artefact, threads, args.tools.library, folder, call)
            jobs = jobs_of(common, args.engines, variants)
            measured = rounds.measure(jobs, cores, args.protocol,
                                      lambda text, threads=threads: live(f"{threads} thread(s), {text}"))
        row = ratios.row(case, threads, measured)
        row["compile_s"], row["peak_gflops"] = seconds, None
        if case.flop:
            row["peak_gflops"] = artefacts.fma_peak(args.tools, artefact, cores)
        live.done(report.line(row))
        yield row


def main():
    args = parse_arguments()
    args.tools, args.protocol, chosen = options.prepare(args)
    args.rates = floors.rates(args.tools, args.target, args.dtype) if options.on_gpu(args) else None
    facts = options.facts(args, compile_flags=args.compile_flags, rates=args.rates)
    report.print_facts(facts)
    call, rows = options.call_model(args, chosen), []
    with rounds.Pool() as args.pool:
        for case in suites.cases(args.suite, chosen):
            rows += compare_on_gpu(case, args) if options.on_gpu(args) else compare(case, call, args)
            report.write(args.out / facts["suite"], facts, rows)
    report.print_summary(rows)
    plots.bars(args.out / f"{facts['suite']}.svg", facts, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
