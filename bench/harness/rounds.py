"""Interleaved rounds: every engine in a process of its own on the same cores, all but the one measured stopped."""
import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import random
import re
import selectors
import signal
import subprocess
import sys
import tempfile

import numpy as np

from . import engines, gpu_engines, medians

BENCH = pathlib.Path(__file__).resolve().parent.parent
# A wrong engine's time does not count. Winograd and different orders of summation stay far below this.
TOLERANCE = medians.Tolerance(2e-3, 2e-3)
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class EngineFailed(Exception):
    pass


@dataclasses.dataclass
class Protocol:
    """Per engine and round: seconds of warm-up, seconds measured, smallest number of runs."""
    rounds: int = 30
    warm_up: float = 0.1
    duration: float = 0.4
    runs: int = 3
    load_limit: float = 600.0
    turn: contextlib.AbstractContextManager = contextlib.nullcontext()  # around each step that times something

    def request(self):
        return {"warm_up": self.warm_up, "duration": self.duration, "runs": self.runs}

    def __str__(self):
        return (f"{self.rounds} interleaved rounds; a round and engine: {self.warm_up} s warm-up, then {self.duration} s "
                f"and at least {self.runs} runs; one process an engine, the others stopped")


def prepare_child(cores):
    """Pins the process, and lets it end with its parent however that ends: it may be stopped then."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.sched_setaffinity(0, cores)


def environment(job):
    on_cpu = "device" not in job or ("training" in job and job["device"] == "cpu")
    return engines.environment(job["threads"]) if on_cpu else gpu_engines.environment(job["device"])


def reason_in(log):
    """The last exception that a log names, else its last line: hints may follow an exception."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Failed|Exit)\b", line)]
    return (named or lines or ["no answer in time"])[-1]


def modules_of(job):
    loader = gpu_engines.LOADERS.get(job["engine"]) if "device" in job and "training" not in job else None
    return [loader.module] if loader else []


class Worker:
    """An engine's process, pinned to `cores`; stopped whenever it is not asked for something. It takes one job after
    another."""

    def __init__(self, job, cores, protocol):
        self.name, self._limit = job["label"], protocol.load_limit
        self._log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "harness.worker", *modules_of(job)], cwd=BENCH, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment(job),
            preexec_fn=lambda: prepare_child(cores))
        self.facts, self.outputs = None, None

    def load(self, job):
        self.facts = self._ask(job)
        with np.load(job["outputs"]) as arrays:
            self.outputs = [arrays[k] for k in arrays.files]

    def round(self, protocol):
        return self._ask(protocol.request())

    def _ask(self, request):
        self.process.send_signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):  # what is read says why
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        answer = self._read()
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def _read(self):
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline() if ready.select(self._limit) else ""
        if not line:
            self.process.kill()
            self.process.wait()
            self._log.seek(0)
            raise EngineFailed(f"{self.name}: {reason_in(self._log.read())[:300]}")
        return json.loads(line)

    def close(self):
        if self.process.stdin.closed:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):  # of what it did not live to read
            self.process.stdin.close()
        self.process.stdout.close()
        self._log.close()


class Pool:
    """Workers by label, each used again while it lives: importing a framework and starting a GPU takes longer than a case."""

    def __init__(self):
        self._workers = {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for worker in self._workers.values():
            worker.close()

    def worker(self, job, cores, protocol):
        found = self._workers.get(job["label"])
        if not found or found.process.poll() is not None:
            if found:
                found.close()
            found = self._workers[job["label"]] = Worker(job, cores, protocol)
        return found


def start_workers(jobs, cores, protocol, pool):
    """(workers by label, reasons of those that failed)."""
    workers, failed = {job["label"]: pool.worker(job, cores, protocol) for job in jobs}, {}
    for job in jobs:
        try:
            with protocol.turn if job["engine"] in gpu_engines.TIMING else contextlib.nullcontext():
                workers[job["label"]].load(job)
        except EngineFailed as error:
            failed[job["label"]] = str(error)
            workers.pop(job["label"])
    return workers, failed


def allowed(name, differences, tolerance):
    """How far this engine may be from the reference (medians.Tolerance)."""
    if name == tolerance.peer:
        return tolerance.high
    peers = {other: far for other, far in differences.items() if other != name and not engines.is_ours(other)}
    far = peers.get(tolerance.peer, min(peers.values(), default=tolerance.high))
    return min(tolerance.high, max(tolerance.low, 2 * far))


def refuse_wrong(workers, failed, reference_label, tolerance=TOLERANCE):
    """Takes out workers whose outputs differ from the reference's; returns the differences."""
    reference = workers.get(reference_label)
    differences = {name: medians.largest_difference(worker.outputs, reference.outputs)
                   for name, worker in workers.items() if reference and name != gpu_engines.EMPTY}
    peers = {name: far for name, far in differences.items() if name != reference_label}
    for name in differences:
        if not differences[name] <= allowed(name, peers, tolerance):
            failed[name] = f"{name}: outputs differ from {reference_label}'s by {differences[name]:.2g} of the largest"
            workers.pop(name)
    return differences


def measure(jobs, cores, protocol, progress=lambda text: None, reference=engines.REFERENCE, tolerance=TOLERANCE, pool=None):
    """Runs the rounds of jobs with different labels. A job labelled gpu_engines.REFERENCE is compared with, not measured;
    one labelled gpu_engines.EMPTY is measured, not compared.

    Processes come from the pool, else from one that ends here. Returns {"engines": {label: facts, difference, rounds},
    "failed": {label: reason}}.
    """
    if not pool:
        with Pool() as pool:
            return measure(jobs, cores, protocol, progress, reference, tolerance, pool)
    order = random.Random(0)
    workers, failed = start_workers(jobs, cores, protocol, pool)
    differences = refuse_wrong(workers, failed, reference, tolerance)
    workers.pop(gpu_engines.REFERENCE, None)
    rounds = {name: [] for name in workers}
    with protocol.turn:
        for index in range(protocol.rounds):
            for name in order.sample(sorted(workers), len(workers)):
                try:
                    rounds[name].append(workers[name].round(protocol))
                except EngineFailed as error:
                    failed[name] = str(error)
                    workers.pop(name)
            progress(f"round {index + 1}/{protocol.rounds}")
    facts = {name: dict(w.facts, difference=differences.get(name), rounds=rounds[name]) for name, w in workers.items()}
    return {"engines": facts, "failed": failed}


def available_cores(threads):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < threads:
        raise SystemExit(f"{threads} threads asked for, {len(cores)} cores available")
    return set(cores[:threads])


def every_core():
    return set(os.sched_getaffinity(0))


def job(case, artefact, threads, library, folder, call=None):
    """What a worker is told, less engine and label; `call` is the one-element model's (case, artefact)."""
    common = {"model": str(case.model), "artefact": str(artefact), "feeds": str(case.feeds), "threads": threads,
              "torch": case.torch, "own_module": case.own_module, "library": str(library), "folder": str(folder)}
    if call:
        common["call"] = {"model": str(call[0].model), "artefact": str(call[1]), "feeds": str(call[0].feeds),
                          "torch": None}
    return common


def labelled(common, engine, label=None, **changes):
    label = label or engine
    return dict(common, engine=engine, label=label, outputs=str(pathlib.Path(common["folder"]) / f"{label}.npz"),
                **changes)


OPERATORS, NETWORKS, QUICK_ROUNDS = (0.02, 0.08, 5), (0.1, 0.4, 3), 8
QUICK_OPERATORS, QUICK_NETWORKS = (0.01, 0.04, 3), (0.05, 0.25, 2)


def protocol_for(is_operator, rounds, is_quick):
    if is_quick:
        return Protocol(QUICK_ROUNDS, *(QUICK_OPERATORS if is_operator else QUICK_NETWORKS))
    return Protocol(rounds, *(OPERATORS if is_operator else NETWORKS))
