"""One engine in a process of its own; started by rounds.py, answers one line of JSON to each request.

  python3 -m harness.worker MODULE...     (in bench/; imports the modules while it waits)

Requests: a job, which it loads in place of the one before -> {"ready_s": s, "version": text}, the outputs in a file;
{"warm_up": s, "duration": s, "runs": smallest number} -> {"median": ms, "p10": ms, "n": runs}, and the same with
the prefix "call_" for the job's one-element model where it has one: what a call costs with next to no work.
"""
import gc
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


def maker(job):
    if "training" in job:
        from training import engines as of_training
        return of_training.ENGINES[job["engine"]]
    return (gpu_engines.LOADERS if "device" in job else engines.ENGINES)[job["engine"]]


def load(job):
    """(the engine of a job, that of its call, what is said about them)"""
    start = time.perf_counter()
    make = maker(job)
    engine = make(job)
    if hasattr(engine, "run"):
        engine.run()
    ready = time.perf_counter() - start
    call = make(dict(job, **job["call"])) if job.get("call") else None
    np.savez(job["outputs"], *engine.outputs())
    return engine, call, {"ready_s": ready, "version": engine.version, "memory": getattr(engine, "memory", None)}


def measured(engine, call, request):
    result = timed(engine.run, request) if hasattr(engine, "run") else summary(engine.measure(request))
    if call:
        result.update(timed(call.run, request, "call_"))
    return result


def main():
    answers = os.fdopen(os.dup(1), "w")  # engines print; only this carries answers
    os.dup2(2, 1)
    for module in sys.argv[1:]:
        importlib.import_module(module)
    engine = call = None
    for line in sys.stdin:
        request = json.loads(line)
        if "engine" in request:
            engine = call = None
            gc.collect()  # before the next one takes the device's memory
            engine, call, answer = load(request)
        else:
            answer = measured(engine, call, request)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
