#!/usr/bin/env python3
"""Training steps beside torch: eager and Inductor with fused AdamW, on GPUs in a CUDA graph, in bf16 by autocast.

  bash bench/setup.sh                                                   once; prints the interpreter to use
  PYTHON bench/train.py --quick --threads 1                             on CPUs: BERT-tiny, small CNNs, an encoder layer
  PYTHON bench/train.py --target cuda:sm_90a --dtype bf16               encoder layers, BERT-large, GPT-2, ViT-L/16, ..
  PYTHON bench/train.py --small --quick --only bert,cnn                 small sizes: to try it

All begin with the same weights: the model is exported from the torch module that torch runs. The losses of the first steps
and by how much they fell (of gradients: the loss and their norm) are compared with torch eager's before anything is timed;
an engine that is off is named and has no time. Ratios are a peer's time over Tilewright's. Results: OUT/training.json, .md.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import artefacts, machine, medians, options, ratios, report, rounds  # noqa: E402
from training import cases, engines  # noqa: E402

# Of losses, in parts of the largest. Masks of dropouts are each program's own.
TOLERANCE, OF_DROPOUT = {"f32": 2e-3, "bf16": 2e-2}, 5e-2


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--threads", type=options.numbers, default=[1, 2], help="numbers of threads, comma separated")
    p.add_argument("--target", default="cpu", help="of the compiler; cuda:sm_90a: engines and times are those of the GPU")
    p.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    p.add_argument("--seed", type=int, default=0, help="of weights, inputs and labels")
    p.add_argument("--small", action="store_true", help="small sizes of all cases: to try them, not for claims")
    p.add_argument("--only", default="", help="cases whose name has one of these parts, comma separated")
    p.add_argument("--engines", default=",".join(engines.ENGINES), help="comma separated; eager is what losses are compared with")
    p.add_argument("--rounds", type=int, default=30)
    p.add_argument("--quick", action="store_true", help=f"{rounds.QUICK_ROUNDS} short rounds: for development, not for claims")
    p.add_argument("--train-flags", default="", help="passed to `tilewright train`, for example '--no-measure'")
    p.add_argument("--tilewright", help="the command (default: build/release)")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench"))
    return p.parse_args()


def make(spec, args, folder):
    """(artefact or None, seconds, feeds, why there is none)."""
    from beside_torch import compared
    from training import networks
    module, inputs, labels = networks.build(spec)
    model, feeds, artefact = folder / "model.onnx", folder / "feeds.npz", folder / "model.train.tw"
    np.savez(feeds, labels=labels.numpy(), **{name: x.numpy() for name, x in inputs.items()})
    try:
        compared.export(module, inputs, model, "torchscript")
    except compared.NoModel as error:
        return None, None, feeds, f"not exported: {error}"
    start = time.perf_counter()
    done = subprocess.run([args.tools.command, "train", model, "--loss", spec["loss"], "--optimizer", "adamw", "--weight-decay",
                           str(engines.DECAY), "--target", args.target, "--dtype", args.dtype, *args.train_flags.split(), "-o",
                           artefact], capture_output=True, text=True)
    if done.returncode != 0:
        return None, None, feeds, (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return artefact, time.perf_counter() - start, feeds, ""


def compare(name, spec, args):
    """Rows of one case, one for each number of threads."""
    on_gpu, live = options.on_gpu(args), report.Live(name)
    live("exporting and compiling")
    high = OF_DROPOUT if spec["dropout"] else TOLERANCE[args.dtype]
    with tempfile.TemporaryDirectory(prefix="tw-train-") as scratch:
        folder = pathlib.Path(scratch)
        artefact, seconds, feeds, reason = make(spec, args, folder)
        for threads in [1] if on_gpu else args.threads:
            common = {"training": spec, "artefact": str(artefact), "feeds": str(feeds), "threads": threads, "dtype": args.dtype,
                      "library": str(args.tools.library), "folder": scratch, "device": "cuda" if on_gpu else "cpu"}
            wanted = [e for e in args.engines.split(",") if on_gpu or e not in engines.OF_GPUS]
            jobs = [rounds.labelled(common, e) for e in wanted if artefact or e != "tilewright"]
            cores = rounds.every_core() if on_gpu else rounds.available_cores(threads)
            measured = rounds.measure(jobs, cores, args.protocol, live, "eager", medians.Tolerance(high, high))
            if reason:
                measured["failed"]["tilewright"] = f"tilewright: {reason}"
            case = argparse.Namespace(name=name, family="training", batch=spec["batch"], flop=0.0)
            row = dict(ratios.row(case, threads, measured, args.dtype), compile_s=seconds, peak_gflops=None)
            for label, facts in measured["engines"].items():
                row["engines"][label]["memory_bytes"] = facts["memory"]
            live.done(report.line(row))
            yield row


def main():
    args = parse_arguments()
    args.tools, args.protocol = artefacts.find_tools(args.tilewright), rounds.protocol_for(False, args.rounds, args.quick)
    args.protocol.load_limit = options.GPU_LOAD_LIMIT
    where = machine.gpu_facts() if options.on_gpu(args) else machine.facts()
    facts = dict(where, dtype=args.dtype, target=args.target, suite="training", seed=args.seed, protocol=str(args.protocol),
                 quick=args.quick, train_flags=args.train_flags)
    report.print_facts(facts)
    rows, only = [], [part for part in args.only.split(",") if part]
    for name, spec in cases.specs(options.on_gpu(args), args.small, only, args.seed):
        rows += compare(name, spec, args)
        report.write(args.out / "training", facts, rows)
    report.print_summary(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
