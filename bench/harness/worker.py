"""One engine with one model in a process of its own; started by rounds.py, loads at its first line and answers one line
of JSON to it and to each request.

  python3 -m harness.worker JOB.json     (in bench/)

Request {"warm_up": s, "duration": s, "runs": smallest number} -> {"median": ms, "p10": ms, "n": runs}, and the same with
the prefix "call_" for the job's one-element model where it has one: what a call costs with next to no work.
"""
import importlib
import json
import os
import statistics
import sys
import time

import numpy as np

from . import engines, gpu_engines


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def timed(run, request, prefix=""):
    clock, times = time.perf_counter, []
    end = clock() + request["warm_up"]
    run()
    while clock() < end:
        run()
    end = clock() + request["duration"]
    while len(times) < request["runs"] or clock() < end:
        start = clock()
        run()
        times.append((clock() - start) * 1e3)
    return summary(times, prefix)


def summary(times, prefix=""):
    return {prefix + "median": statistics.median(times), prefix + "p10": quantile(times, 0.1), prefix + "n": len(times)}


def main():
    answers = os.fdopen(os.dup(1), "w")  # engines print; only this carries answers
    os.dup2(2, 1)

    def answer(document):
        print(json.dumps(document), file=answers, flush=True)
    with open(sys.argv[1]) as f:
        job = json.load(f)
    on_gpu = "device" in job
    make = dict(gpu_engines.ENGINES, reference=gpu_engines.Reference)[job["engine"]] if on_gpu else engines.ENGINES[job["engine"]]
    if on_gpu:  # seconds; the engines of a case do it side by side, and load one after the other
        importlib.import_module(make.module)
    sys.stdin.readline()
    start = time.perf_counter()
    engine = make(job)
    if not on_gpu:
        engine.run()
    ready = time.perf_counter() - start
    call = make(dict(job, **job["call"])) if job.get("call") else None
    np.savez(job["outputs"], *engine.outputs())
    answer({"ready_s": ready, "version": engine.version})
    for line in sys.stdin:
        request = json.loads(line)
        result = summary(engine.measure(request)) if on_gpu else timed(engine.run, request)
        if call:
            result.update(timed(call.run, request, "call_"))
        answer(result)


if __name__ == "__main__":
    main()
