"""Command line options that run.py and ablate.py share."""
import argparse
import pathlib

import suites
from suites.case import Options

from . import artefacts, machine, rounds, turns


def numbers(text):
    return [int(part) for part in text.split(",")]


GPU_LOAD_LIMIT = 1800.0  # seconds: some peers try every kernel they have


def on_gpu(args):
    return args.target.startswith("cuda")


def suite(text):
    if text not in suites.SUITES and not (text.endswith(".onnx") and pathlib.Path(text).is_file()):
        raise argparse.ArgumentTypeError(f"'{text}' is neither a suite ({', '.join(suites.SUITES)}) nor an ONNX file")
    return text


def named_flags(text):
    """(name, flags) of NAME=FLAGS."""
    name, is_named, flags = text.partition("=")
    if not (name and is_named) or "/" in name:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=FLAGS, as in own=\"--libraries none\", the name without '/'")
    return name, flags


def add_suite_arguments(p):
    p.add_argument("suite", type=suite, help=f"{', '.join(suites.SUITES)}, or MODEL.onnx (inputs: MODEL.npz or seeded)")
    p.add_argument("--threads", type=numbers, default=[1, 2], help="numbers of threads, comma separated")
    p.add_argument("--target", default="cpu", help="of the compiler; cuda:sm_90a: engines and times are those of the GPU")
    p.add_argument("--dtype", choices=["f32", "f16"], default="f32",
                   help="on a GPU: of inputs, outputs and weights, for all engines")
    p.add_argument("--batch", type=int, help="of networks (default 1)")
    p.add_argument("--seed", type=int, default=0, help="of weights, inputs, drawn shapes: another seed, another suite")
    p.add_argument("--small", action="store_true", help="small sizes of pairs and transformers: to try them, not for claims")
    p.add_argument("--exporter", choices=["torchscript", "dynamo"], default="torchscript",
                   help="of torch's, which writes the models of transformers (opset 17; 20)")
    p.add_argument("--keep-models", action="store_true", help="those of transformers stay in OUT/models: 40 GB in all")
    p.add_argument("--only", default="", help="cases whose name has one of these parts, comma separated")
    p.add_argument("--rounds", type=int, default=30)
    p.add_argument("--quick", action="store_true",
                   help=f"{rounds.QUICK_ROUNDS} short rounds: for development, not for claims")
    p.add_argument("--turns", metavar="FILE", type=pathlib.Path,
                   help="with several of this program on one GPU: they load side by side and time in turns, by this file's lock")
    p.add_argument("--tilewright", help="the command (default: build/release)")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench"), help="folder of models and results")


def prepare(args):
    """(tools, protocol, the suite's options) of parsed arguments."""
    protocol = rounds.protocol_for(args.suite in suites.OPERATOR_SUITES, args.rounds, args.quick)
    if args.turns:
        protocol.turn = turns.Turn(args.turns)
    if on_gpu(args):
        protocol.load_limit = GPU_LOAD_LIMIT
    elif args.dtype != "f32":
        raise SystemExit("--dtype f16 is for GPUs: the CPU's engines are compared in f32")
    only = tuple(part for part in args.only.split(",") if part)
    return artefacts.find_tools(args.tilewright), protocol, Options(
        args.out / "models", args.seed, args.batch, only, on_gpu(args), args.small, args.exporter, args.keep_models)


def call_model(args, chosen):
    """(case, artefact) of the one-element model that prices a call; None for networks."""
    if args.suite not in suites.OPERATOR_SUITES or on_gpu(args):  # a GPU's own time has no call in it
        return None
    case = suites.case.call_case(chosen)
    return case, artefacts.compile_model(args.tools, case.model, [])[0]


def facts(args, **more):
    where = machine.gpu_facts() if on_gpu(args) else machine.facts()
    return dict(where, dtype=args.dtype, target=args.target, suite=suites.name_of(args.suite), seed=args.seed,
                protocol=str(args.protocol), quick=args.quick, **more)
