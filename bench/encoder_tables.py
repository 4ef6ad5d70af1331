#!/usr/bin/env python3
"""Tables I to III of Ivanov et al., Data Movement Is All You Need (MLSys 2021), for their encoder layer: the paper's numbers
and ours side by side, as Markdown.

  python bench/encoder_tables.py                                        counts alone: seconds, no device
  python bench/encoder_tables.py --target cuda:sm_90a --dtype f16       times of the compiled layer, too
  python bench/encoder_tables.py --small --target cpu                the same on a CPU, of a small layer

Counts are those of `tilewright analyze --no-run --function grads`, of the graph as it is differentiated. Exit code 1 where
one differs from the paper's and rows.py has no reason for it.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import artefacts  # noqa: E402
from paper import encoder, groups, projections, table3  # noqa: E402
from paper.flow import Flow  # noqa: E402


class Command:
    """`tilewright` with the device, type and flags of this run."""

    def __init__(self, tools, args, folder):
        self._command, self._folder = tools.command, folder
        self._flags = ["--target", args.target, "--dtype", args.dtype, *args.train_flags.split()] if args.target else []

    def call(self, *words):
        done = subprocess.run([self._command, *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"tilewright {words[0]} failed:\n{done.stderr}")
        return done.stdout

    def save(self, model, name):
        path = self._folder / f"{name}.onnx"
        onnx.save(model, path)
        return path

    def counted(self, model):
        return Flow(json.loads(self.call("analyze", model, "--no-run", "--function", "grads", "--loss", "output", "--json")))

    def train(self, model, *flags):
        artefact = model.with_suffix(".train.tw")
        self.call("train", model, "--loss", "output", "--optimizer", "sgd", *self._flags, *flags, "-o", artefact)
        return artefact

    def compile(self, model, *flags):
        artefact = model.with_suffix(".tw")
        self.call("compile", model, *self._flags, *flags, "-o", artefact)
        return artefact

    def timed(self, artefact, function=None):
        """Groups with the times of a run."""
        return Flow(json.loads(self.call("analyze", artefact, "--json", *(["--function", function] if function else []))))


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--target", help="compile and time for this device")
    p.add_argument("--dtype", default="f32", choices=["f32", "f16", "bf16"])
    p.add_argument("--train-flags", default="", help="passed to `tilewright train` and `compile`")
    p.add_argument("--small", action="store_true", help="a small layer: no counts beside the paper's")
    p.add_argument("--tilewright", help="the command (default: the release build's, or that on PATH)")
    p.add_argument("--out", type=pathlib.Path, help="folder for encoder-layer.md (default: print alone)")
    return p.parse_args()


def times(command, sizes, layer):
    """Tables I and II and the groups, of this device."""
    flow = command.timed(command.train(layer), "grads")
    yield "## Table I: shares of the classes\n\n" + groups.shares(flow)
    yield "## Table II: queries, keys and values\n\n" + projections.markdown(
        {case: projections.times(command, sizes, case) for case in projections.CASES})
    yield "## Groups\n\n" + groups.markdown(flow)


def main():
    args = parse_arguments()
    sizes = encoder.SMALL if args.small else encoder.Sizes()
    with tempfile.TemporaryDirectory() as scratch:
        command = Command(artefacts.find_tools(args.tilewright), args, pathlib.Path(scratch))
        layer = command.save(encoder.Layer(sizes).model(), "encoder")
        flow = command.counted(layer)
        compared = table3.compare(flow)
        parts = ["# The encoder layer of Data Movement Is All You Need\n\n"
                 f"{sizes.batch} x {sizes.tokens} tokens, {sizes.heads} heads of {sizes.size}, {sizes.hidden} hidden, dropout "
                 f"{encoder.DROPOUT}; forward and backward. Words of masks, which the paper's dropouts store and ours draw "
                 "again, are behind a plus. Made by `bench/encoder_tables.py`; tables I and II and the times of groups are those "
                 "of one device: `--target cuda:sm_90a --dtype f16`.",
                 "## Table III: flop and words\n\n" + table3.markdown(flow, compared)]
        if args.target:
            parts += times(command, sizes, layer)
    text = "\n\n".join(parts) + "\n"
    print(text)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "encoder-layer.md").write_text(text)
    wrong = [] if args.small else list(table3.unexplained(flow, compared))
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
