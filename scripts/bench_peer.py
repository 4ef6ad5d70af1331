#!/usr/bin/env python3
"""Times a model in `tilewright bench` and in onnxruntime, interleaved, and prints medians and ratios.

  python3 scripts/bench_peer.py MODEL.onnx --threads 1,2 [--artefact MODEL.tw] [--rounds 30]

One process per engine, on the same cores; the idle engine is stopped. Each round times both engines for a moment, in
alternating order; a round's ratio is tilewright's latency over onnxruntime's (below 1: tilewright is faster). Printed:
best decile and median of each engine, and the median ratio with its 95 % bounds. Exit code 3 without onnxruntime.
"""
import argparse
import contextlib
import json
import math
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

WORKER = "--onnxruntime-worker"


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def median_bounds(values):
    """95 % confidence bounds of the median from order statistics (normal approximation of the binomial)."""
    ordered, n = sorted(values), len(values)
    low = max(0, math.floor(n / 2 - 0.98 * math.sqrt(n)))
    return ordered[low], ordered[n - 1 - low]


def feeds_for(session, model):
    """Inputs of NAME.npz beside the model, or seeded ones: N(0,1) for floats, ones for integers."""
    import numpy as np
    saved = pathlib.Path(model).with_suffix(".npz")
    if saved.exists():
        with np.load(saved) as arrays:
            return dict(arrays)
    rng, feeds = np.random.default_rng(0), {}
    for value in session.get_inputs():
        shape = [d if isinstance(d, int) else 1 for d in value.shape]
        kind = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}[value.type]
        feeds[value.name] = rng.standard_normal(shape, dtype=kind) if kind == np.float32 else np.ones(shape, kind)
    return feeds


def worker(model, threads, warm_up, duration):
    """The onnxruntime process: for each line on stdin, times runs and answers with their latencies in ms."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = feeds_for(session, model)
    print("ready", flush=True)
    for _ in sys.stdin:
        end = time.perf_counter() + warm_up
        while time.perf_counter() < end:
            session.run(None, feeds)
        times, end = [], time.perf_counter() + duration
        while len(times) < 10 or time.perf_counter() < end:
            start = time.perf_counter()
            session.run(None, feeds)
            times.append((time.perf_counter() - start) * 1e3)
        print(json.dumps({"p10": quantile(times, 0.1), "median": statistics.median(times)}), flush=True)


class Peer:
    """The onnxruntime worker; stopped whenever it is not asked for a round."""

    def __init__(self, args, threads, cores):
        command = [sys.executable, __file__, args.model, WORKER, "--threads", str(threads), "--warm-up",
                   str(args.warm_up), "--duration", str(args.duration)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cores))
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit("onnxruntime could not load the model")
        self.process.send_signal(signal.SIGSTOP)

    def round(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


def tilewright_round(args, artefact, threads, cores):
    command = [args.tilewright, "bench", artefact, "--json", f"--threads={threads}",
               f"--warm-up={round(args.warm_up * 1e3)}", f"--duration={args.duration}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, cores))
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)["latency_ms"]


def compare(args, artefact, threads):
    cores = set(sorted(os.sched_getaffinity(0))[:threads])
    if len(cores) < threads:
        raise SystemExit(f"{threads} threads asked for, {len(cores)} cores available")
    ours, theirs = [], []
    with contextlib.closing(Peer(args, threads, cores)) as peer:
        for index in range(args.rounds):
            one = lambda: ours.append(tilewright_round(args, artefact, threads, cores))
            other = lambda: theirs.append(peer.round())
            for engine in ((one, other) if index % 2 == 0 else (other, one)):
                engine()
            if sys.stderr.isatty():
                print(f"\r{threads} thread(s): round {index + 1}/{args.rounds}", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    ratios = [a["median"] / b["median"] for a, b in zip(ours, theirs)]
    low, high = median_bounds(ratios)
    best = lambda rounds: quantile([r["p10"] for r in rounds], 0.1)
    middle = lambda rounds: statistics.median(r["median"] for r in rounds)
    return {"threads": threads, "rounds": args.rounds,
            "tilewright_ms": {"p10": best(ours), "median": middle(ours)},
            "onnxruntime_ms": {"p10": best(theirs), "median": middle(theirs)},
            "ratio": {"median": statistics.median(ratios), "low95": low, "high95": high,
                      "p10": best(ours) / best(theirs)}}


def default_tilewright():
    root = pathlib.Path(__file__).resolve().parent.parent
    built = [p for p in sorted(root.glob("build/release/**/tilewright")) if p.is_file() and os.access(p, os.X_OK)]
    return str(built[0]) if built else shutil.which("tilewright")


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--threads", default="1,2", help="thread counts, comma separated")
    p.add_argument("--artefact", help="MODEL.tw (default: compiled into a temporary folder)")
    p.add_argument("--tilewright", default=default_tilewright(), help="the command's path")
    p.add_argument("--rounds", type=int, default=30)
    p.add_argument("--warm-up", type=float, default=0.1, help="seconds a round and engine")
    p.add_argument("--duration", type=float, default=0.4, help="seconds a round and engine, and at least 10 runs")
    p.add_argument("--json", action="store_true")
    p.add_argument(WORKER, action="store_true", help=argparse.SUPPRESS)
    return p.parse_args()


def report(row):
    ratio = row["ratio"]
    for engine in ("tilewright", "onnxruntime"):
        ms = row[engine + "_ms"]
        print(f"{engine:12} {row['threads']} thread(s): best decile {ms['p10']:.3f} ms, median {ms['median']:.3f} ms")
    print(f"ratio {row['threads']} thread(s): tilewright takes {ratio['median']:.3f} times onnxruntime's time "
          f"(95 %: {ratio['low95']:.3f} to {ratio['high95']:.3f}; best deciles {ratio['p10']:.3f})", flush=True)


def main():
    args = parse_arguments()
    if args.onnxruntime_worker:
        return worker(args.model, int(args.threads), args.warm_up, args.duration)
    try:
        import onnxruntime
    except ImportError:
        print("onnxruntime is not installed: nothing to compare with", file=sys.stderr)
        return 3
    if not args.tilewright:
        print("no tilewright program: build it or pass --tilewright", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        artefact = args.artefact or str(pathlib.Path(folder) / "model.tw")
        if not args.artefact:
            subprocess.run([args.tilewright, "compile", args.model, "-o", artefact], check=True, stdout=sys.stderr)
        out = sys.stderr if args.json else sys.stdout
        print(f"{args.model}: {args.rounds} interleaved rounds of {args.duration} s after {args.warm_up} s of warm-up, "
              f"f32, onnxruntime {onnxruntime.__version__}, same cores for both, idle engine stopped", file=out)
        rows = []
        for threads in map(int, args.threads.split(",")):
            rows.append(compare(args, artefact, threads))
            if not args.json:
                report(rows[-1])
        if args.json:
            print(json.dumps({"schema": "tilewright.bench_peer/1", "model": args.model, "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
