#!/usr/bin/env python3
"""Gradients of artefacts of `tilewright train` beside torch's autograd in f64: are they right?

  bash bench/setup.sh                            once; prints the interpreter to use
  PYTHON bench/gradients.py graphs               200 random torch modules, by both of torch's exporters
  PYTHON bench/gradients.py networks             networks that people train, small, batch norms in training mode
  PYTHON bench/gradients.py graphs --first 17 --count 1 --exporters dynamo     one of them again

A result is right where each parameter's gradient differs by at most a ten-thousandth of its largest element, or by
no more than 20 times as much as torch's own in f32 does (up to 1/200). Exit code 1 where one is not.
"""
import argparse
import collections
import functools
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import artefacts  # noqa: E402

DRAWS = 6


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("of", choices=["graphs", "networks"])
    p.add_argument("--only", nargs="+", help="networks: their names")
    p.add_argument("--first", type=int, default=0, help="seed of the first graph")
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--exporters", nargs="+", default=["torchscript", "dynamo"], choices=["torchscript", "dynamo"])
    p.add_argument("--train-flags", default="--no-measure", help="passed to `tilewright train`")
    p.add_argument("--tilewright", help="the command (default: the release build's, or that on PATH)")
    p.add_argument("--keep", type=pathlib.Path, help="a folder for the models that are not right")
    p.add_argument("--verbose", action="store_true", help="a line for each, with the parts that it is made of")
    return p.parse_args()


def compare_one(name, make, exporter, tools, args):
    """make(draw) -> (module, its inputs). Where an activation lies so near a kink that rounding decides the side, a
    gradient is another one, and rightly so: what is wrong at one draw is tried with others."""
    from beside_torch import compared
    for draw in range(DRAWS):
        module, inputs = make(draw)
        with tempfile.TemporaryDirectory() as scratch:
            result = compared.compare(tools, module, inputs, pathlib.Path(scratch), exporter, args.train_flags.split())
            model = pathlib.Path(scratch) / "model.onnx"
            if args.keep and result.verdict in ("wrong", "refused") and model.exists():
                args.keep.mkdir(parents=True, exist_ok=True)
                (args.keep / f"{name}_{exporter}.onnx").write_bytes(model.read_bytes())
        if result.verdict != "wrong":
            break
    result.draws = draw + 1
    if args.verbose or result.verdict != "right":
        print(f"{name} {exporter}: {result.verdict}: {result.detail}", flush=True)
    return result


def graphs(tools, args):
    from beside_torch import graphs as random_graphs
    results = []
    for seed in range(args.first, args.first + args.count):
        for exporter in args.exporters:
            if args.verbose and exporter == args.exporters[0]:
                print(f"graph {seed}: {random_graphs.make(seed)}")
            results.append(compare_one(f"graph{seed}", functools.partial(random_graphs.make, seed), exporter, tools, args))
    return results


def networks(tools, args):
    from beside_torch import networks as known
    results = []
    print("| network | exporter | verdict | parameters | largest error | torch's in f32 | draws |")
    if unknown := sorted(set(args.only or []) - set(known.NETWORKS)):
        raise SystemExit(f"no network {', '.join(unknown)}; there are {', '.join(known.NETWORKS)}")
    for name in args.only or known.NETWORKS:
        for exporter in args.exporters:
            result = compare_one(name, functools.partial(known.make, name), exporter, tools, args)
            print(f"| {name} | {exporter} | {result.verdict} | {result.parameters} | {result.error:.1e} | "
                  f"{result.torch_error:.1e} | {result.draws} |", flush=True)
            results.append(result)
    return results


def main():
    args = parse_arguments()
    tools = artefacts.find_tools(args.tilewright)
    results = {"graphs": graphs, "networks": networks}[args.of](tools, args)
    count = collections.Counter(result.verdict for result in results)
    right = [result for result in results if result.verdict == "right"]
    print(json.dumps({"right": count["right"], "wrong": count["wrong"], "refused": count["refused"],
                      "not_compared": count["not compared"], "parameters": sum(r.parameters for r in right),
                      "largest_error": max((r.error for r in right), default=0.0)}))
    return 1 if count["wrong"] + count["refused"] or not right else 0


if __name__ == "__main__":
    sys.exit(main())
