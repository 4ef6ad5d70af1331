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
from harness import artefacts, edges, engines, gpu_engines, options, plots, ratios, report, rounds  # noqa: E402
import suites  # noqa: E402


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_suite_arguments(p)
    p.add_argument("--engines", help=f"comma separated (default: {', '.join(engines.ENGINES)}; on a GPU "
                                     f"{', '.join(gpu_engines.ENGINES)})")
    p.add_argument("--compile-flags", default="", help="passed to `tilewright compile`, for example '--no-measure'")
    p.add_argument("--variant", action="append", default=[], metavar="NAME=FLAGS", type=options.named_flags,
                   help="Tilewright with these flags too, in the same run, as 'tilewright:NAME' (repeatable)")
    args = p.parse_args()
    args.variants = dict(args.variant)
    return args


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
    model = edges.channels_last(case.model)
    ours = edges.channels_last(edges.with_type(case.model, args.dtype))
    flags = ["--target", args.target, "--dtype", args.dtype, *args.compile_flags.split()]
    (artefact, seconds), variants = compiled(ours, flags, args, live)
    with tempfile.TemporaryDirectory(prefix="tw-bench-") as folder:
        common = dict(rounds.job(case, artefact, 1, args.tools.library, folder), model=str(model), dtype=args.dtype,
                      device=device)
        names = [gpu_engines.REFERENCE, *(args.engines or ",".join(gpu_engines.ENGINES)).split(",")]
        measured = rounds.measure(jobs_of(common, names, variants), rounds.every_core(), args.protocol, live,
                                  gpu_engines.REFERENCE, gpu_engines.TOLERANCE[args.dtype], args.pool)
    row = dict(ratios.row(case, 1, measured, args.dtype), compile_s=seconds, peak_gflops=None)
    live.done(report.line(row))
    return [row]


def compare(case, call, args):
    """Rows of one case, one for each number of threads."""
    live = report.Live(case.name)
    live("compiling")
    (artefact, seconds), variants = compiled(case.model, args.compile_flags.split(), args, live)
    for threads in args.threads:
        cores = rounds.available_cores(threads)
        with tempfile.TemporaryDirectory(prefix="tw-bench-") as folder:
            common = rounds.job(case, artefact, threads, args.tools.library, folder, call)
            jobs = jobs_of(common, (args.engines or ",".join(engines.ENGINES)).split(","), variants)
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
    facts = options.facts(args, compile_flags=args.compile_flags)
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
