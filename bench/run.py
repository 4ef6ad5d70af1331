#!/usr/bin/env python3
"""Compares Tilewright with onnxruntime, OpenVINO and torch Inductor: one suite, the same cores, in turns.

  bash bench/setup.sh                                                    once; prints the interpreter to use
  PYTHON bench/run.py networks                                           eight networks, 1 and 2 threads
  PYTHON bench/run.py networks --quick --only resnet --threads 1         while developing
  PYTHON bench/run.py depthwise --engines tilewright,onnxruntime

Ratios are a peer's time over Tilewright's: above 1, Tilewright is faster. Results: OUT/SUITE.json, .md and .svg.
"""
import argparse
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import artefacts, engines, machine, plots, ratios, report, rounds  # noqa: E402
import suites  # noqa: E402
from suites.case import Options  # noqa: E402

QUICK_ROUNDS = 8


def numbers(text):
    return [int(part) for part in text.split(",")]


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("suite", choices=sorted(suites.SUITES))
    p.add_argument("--threads", type=numbers, default=[1, 2], help="numbers of threads, comma separated")
    p.add_argument("--batch", type=int, help="of networks (default 1)")
    p.add_argument("--seed", type=int, default=0, help="of weights, inputs and drawn shapes: another seed, another suite")
    p.add_argument("--only", default="", help="cases whose name has one of these parts, comma separated")
    p.add_argument("--engines", default=",".join(engines.ENGINES), help="comma separated")
    p.add_argument("--rounds", type=int, default=30)
    p.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} short rounds: for development, not for claims")
    p.add_argument("--compile-flags", default="", help="passed to `tilewright compile`, for example '--no-measure'")
    p.add_argument("--tilewright", help="the command (default: build/release)")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench"), help="folder of models and results")
    return p.parse_args()


def protocol(args):
    operators = args.suite in suites.OPERATOR_SUITES
    chosen = rounds.Protocol(args.rounds, *((0.02, 0.08, 5) if operators else (0.1, 0.4, 3)))
    if args.quick:
        chosen = rounds.Protocol(QUICK_ROUNDS, *((0.01, 0.04, 3) if operators else (0.05, 0.25, 2)))
    return chosen


def jobs(case, artefact, threads, args, call):
    """A job for each engine; `call` is the one-element model's (case, artefact), or None."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tw-bench-"))
    common = {"model": str(case.model), "artefact": str(artefact), "feeds": str(case.feeds), "threads": threads,
              "torch": case.torch, "library": str(args.tools.library)}
    if call:
        common["call"] = {"model": str(call[0].model), "artefact": str(call[1]), "feeds": str(call[0].feeds),
                          "torch": None}
    return [dict(common, engine=name, outputs=str(folder / f"{name}.npz")) for name in args.engines.split(",")]


def compare(case, call, args):
    """Rows of one case, one for each number of threads."""
    live = report.Live(case.name)
    live("compiling")
    try:
        artefact, seconds = artefacts.compile_model(args.tools, case.model, args.compile_flags.split())
    except artefacts.CompileFailed as error:
        artefact, seconds = pathlib.Path("missing"), None
        live.note(str(error))
    for threads in args.threads:
        cores = rounds.available_cores(threads)
        measured = rounds.measure(jobs(case, artefact, threads, args, call), cores, args.protocol,
                                  lambda text, threads=threads: live(f"{threads} thread(s), {text}"))
        row = ratios.row(case, threads, measured)
        row["compile_s"], row["peak_gflops"] = seconds, None
        if case.flop:
            row["peak_gflops"] = artefacts.fma_peak(args.tools, artefact, cores)
        live.done(report.line(row))
        yield row


def main():
    args = parse_arguments()
    args.tools, args.protocol = artefacts.find_tools(args.tilewright), protocol(args)
    options = Options(args.out / "models", args.seed, args.batch, tuple(filter(None, args.only.split(","))))
    facts = dict(machine.facts(), suite=args.suite, seed=args.seed, protocol=str(args.protocol), quick=args.quick,
                 compile_flags=args.compile_flags)
    report.print_facts(facts)
    call = None
    if args.suite in suites.OPERATOR_SUITES:
        case = suites.case.call_case(options)
        call = (case, artefacts.compile_model(args.tools, case.model, [])[0])
    rows = []
    for case in suites.cases(args.suite, options):
        rows += compare(case, call, args)
        report.write(args.out / args.suite, facts, rows)
    report.print_table(facts, rows)
    report.write(args.out / args.suite, facts, rows)
    plots.bars(args.out / f"{args.suite}.svg", facts, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
