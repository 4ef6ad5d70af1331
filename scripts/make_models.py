#!/usr/bin/env python3
"""Builds the networks that Tilewright is tested with as ONNX files with seeded random weights (needs onnx, numpy).

  python3 scripts/make_models.py OUTDIR                         all networks, batch 1
  python3 scripts/make_models.py OUTDIR --only resnet50         one of them
  python3 scripts/make_models.py OUTDIR --only --gemm 512,512,512 --conv 128,128,28,3,1   kernels alone
  python3 scripts/make_models.py OUTDIR --only --operator-suite   what scripts/gpu_tests.sh verifies

The same seed and options give the same bytes. Files: NAME[_small][_fused][_dyn][_bN].onnx; `--inputs` adds NAME.npz
with seeded inputs. Each file is checked by onnx.checker and, where onnxruntime can be imported, run once: outputs must
be finite.
"""
import argparse
import hashlib
import json
import os
import pathlib
import sys

import numpy as np
import onnx

from models import convnets, micro, operator_suite, operators, transformers

NETWORKS = [*convnets.NETWORKS, *transformers.NETWORKS]
MLP = (128, 512, 256)  # m, n, k of the model called "mlp"
INT_LIST = "comma-separated integers"


def dims(count):
    def parse(text):
        values = tuple(int(v) for v in text.split(","))
        if len(values) != count or min(values) < 1:
            raise argparse.ArgumentTypeError(f"expected {count} positive {INT_LIST}, got '{text}'")
        return values
    return parse


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("outdir", type=pathlib.Path)
    p.add_argument("--only", nargs="*", metavar="NAME", choices=[*NETWORKS, "mlp"],
                   help=f"build these only (none: kernels alone); known: {', '.join([*NETWORKS, 'mlp'])}")
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--small", action="store_true", help="same structure, about 1/8 of the width and small inputs")
    p.add_argument("--dynamic", action="store_true", help="leave the batch symbolic ('batch')")
    p.add_argument("--layernorm", choices=["fused", "decomposed"], default="decomposed")
    p.add_argument("--external", action="store_true", help="weights in NAME.weights beside the model")
    p.add_argument("--inputs", action="store_true", help="write NAME.npz with seeded inputs")
    p.add_argument("--skip-existing", action="store_true", help="keep files made by this script with the same options")
    p.add_argument("--gemm", type=dims(3), action="append", default=[], metavar="M,N,K")
    p.add_argument("--conv", type=dims(5), action="append", default=[], metavar="C,OC,H,K,S")
    p.add_argument("--mlp", type=dims(3), action="append", default=[], metavar="M,N,K")
    p.add_argument("--operators", type=pathlib.Path, metavar="FILE.json",
                   help="a list of specifications of one-operator models (models/operators.py)")
    p.add_argument("--operator-suite", action="store_true",
                   help="a small model of every family of operators at odd and even shapes (models/operator_suite.py)")
    return p.parse_args()


def network(name, args):
    options = dict(seed=args.seed, batch=args.batch, dynamic=args.dynamic, small=args.small)
    if name in transformers.NETWORKS:
        return transformers.NETWORKS[name](name, layernorm=args.layernorm, **options)
    return convnets.NETWORKS[name](name, **options)


def jobs(args):
    """(file stem, function that builds it) for all that was asked for."""
    batch = "_dyn" * args.dynamic + (f"_b{args.batch}" if args.batch != 1 else "")
    for name in [*NETWORKS, "mlp"] if args.only is None else args.only:
        if name == "mlp":
            yield "mlp", lambda: micro.mlp(*MLP, args.seed)
        else:
            fused = "_fused" * (name in transformers.NETWORKS and args.layernorm == "fused")
            yield name + "_small" * args.small + fused + batch, lambda name=name: network(name, args)
    for d in args.gemm:
        stem = "gemm_" + "_".join(map(str, d))
        yield stem, lambda d=d: micro.gemm(*d, False, args.seed)
        yield stem + "_ab", lambda d=d: micro.gemm(*d, True, args.seed)
    for d in args.conv:
        stem = "conv_" + "_".join(map(str, d)) + (f"_b{args.batch}" if args.batch != 1 else "")
        yield stem, lambda d=d: micro.conv(*d, args.seed, args.batch)
    for d in args.mlp:
        stem = "mlp_" + "_".join(map(str, d))
        yield stem, lambda d=d, stem=stem: micro.mlp(*d, args.seed, stem)
    listed = json.loads(args.operators.read_text()) if args.operators else []
    for spec in listed + (operator_suite.specs() if args.operator_suite else []):
        yield spec["name"], lambda spec=spec: operators.build(spec, args.seed)


def generator_stamp(args):
    """What the bytes of a file depend on: the options, this script's sources and the versions of its libraries."""
    here = pathlib.Path(__file__).resolve().parent
    text = b"".join(f.read_bytes() for f in [here / "make_models.py", *sorted((here / "models").glob("*.py"))])
    options = [args.batch, args.seed, args.small, args.dynamic, args.layernorm, args.external, args.inputs]
    return hashlib.sha256(text + json.dumps([options, onnx.__version__, np.__version__]).encode()).hexdigest()[:16]


def save(builder, stem, args):
    path = args.outdir / f"{stem}.onnx"
    temporary = args.outdir / f".{stem}.onnx.part"
    if args.external:
        weights = args.outdir / f"{stem}.weights"
        weights.unlink(missing_ok=True)  # onnx appends to an existing file
        onnx.save_model(builder.model(), temporary, save_as_external_data=True, all_tensors_to_one_file=True,
                        location=f"{stem}.weights", size_threshold=1024)
        weights.chmod(temporary.stat().st_mode)  # onnx makes it private
    else:
        temporary.write_bytes(builder.model().SerializeToString(deterministic=True))
    onnx.checker.check_model(str(temporary), full_check=True)
    os.replace(temporary, path)
    if args.inputs:
        np.savez(args.outdir / f"{stem}.npz", **builder.feeds)
    return path


def run_once(path, feeds):
    """A line about the outputs, from onnxruntime; empty without it. Raises if an output is not finite."""
    try:
        import onnxruntime
    except ImportError:
        return ""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    for output, y in zip(session.get_outputs(), session.run(None, feeds)):
        if not np.isfinite(y).all():
            raise SystemExit(f"{path}: output {output.name} has values that are not finite")
    return f", {output.name} {list(y.shape)} std {y.std():.3g} max {abs(y).max():.3g}"


def main():
    args = parse_arguments()
    args.outdir.mkdir(parents=True, exist_ok=True)
    manifest = args.outdir / "models.json"
    made = json.loads(manifest.read_text()) if manifest.exists() else {}
    stamp = generator_stamp(args)
    for stem, build in jobs(args):
        if args.skip_existing and made.get(stem) == stamp and (args.outdir / f"{stem}.onnx").exists():
            print(f"{stem}: up to date")
            continue
        builder = build()
        path = save(builder, stem, args)
        note = run_once(path, builder.feeds)
        made[stem] = stamp
        manifest.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB, {len(builder.nodes)} nodes{note}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
