#!/usr/bin/env python3
"""Trains small networks with an artefact of `tilewright train` and with torch, from the same weights, on the same
batches: do they learn, and alike?

  bash bench/setup.sh                          once; prints the interpreter to use
  PYTHON bench/learn.py digits                 handwritten digits, five seeds: curves, share of held-out digits told right
  PYTHON bench/learn.py text                   a GPT of two layers on characters of Python's library
  PYTHON bench/learn.py digits --seeds 1 --steps 200 --peer none      a short run without torch
  PYTHON bench/learn.py digits --kill          killed twice and resumed from saved state: the same bits?

Results: OUT/TASK.json and TASK.svg. Exit code 1 where a check fails.
"""
import argparse
import json
import pathlib
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import artefacts  # noqa: E402
from learning import digits, judge, killed, ours, picture, text  # noqa: E402

TASKS = {"digits": digits.Task, "text": text.Task}


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("task", choices=[*TASKS, "go-on"], help="go-on is what --kill runs and kills")
    p.add_argument("--seeds", type=int, default=5, help="seeds 0 to N - 1, of weights, batches and dropouts")
    p.add_argument("--steps", type=int, help="default: the task's")
    p.add_argument("--dropout", type=float, help="ratio; default: the task's")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--peer", choices=["torch", "none"], default="torch")
    p.add_argument("--train-flags", default="--no-measure", help="passed to `tilewright train`")
    p.add_argument("--tilewright", help="the command (default: the release build's, or that on PATH)")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench"))
    p.add_argument("--kill", action="store_true", help="compare a run that is killed and resumed with an undisturbed one")
    p.add_argument("--of", choices=list(TASKS), help="go-on: the task")
    p.add_argument("--artefact", type=pathlib.Path, help="go-on: the training step")
    p.add_argument("--library", type=pathlib.Path, help="go-on: the runtime")
    p.add_argument("--folder", type=pathlib.Path, help="go-on: of state and curve")
    return p.parse_args()


def task_of(name, args):
    task = TASKS[name]() if args.dropout is None else TASKS[name](args.dropout)
    task.steps = args.steps or task.steps
    return task


def learn(task, tools, args, folder):
    """{program: curves}, {program: scores}, seconds a step."""
    trainer = ours.Trainer(tools.library, ours.make_step(tools, task, task.weights(0), folder, args.train_flags.split()),
                           args.threads)
    curves, scores, seconds = {"tilewright": []}, {"tilewright": []}, {"tilewright": 0.0}
    for seed in range(args.seeds):
        weights, begin = task.weights(seed), time.perf_counter()
        trainer.begin(weights)
        curves["tilewright"].append(ours.curve(task, trainer, seed, task.steps).tolist())
        seconds["tilewright"] += (time.perf_counter() - begin) / task.steps / args.seeds
        learnt = {name: value for name, value in trainer.states().items() if name in weights}
        scores["tilewright"].append(ours.score(tools, task, learnt, folder))
        if args.peer == "torch":
            learn_by_torch(task, weights, seed, args, (curves, scores, seconds))
        print(f"seed {seed}: " + ", ".join(f"{name} loss {np.nanmean(c[-1][-judge.WINDOW:]):.4f}, held out "
                                           f"{scores[name][-1]:.4f}" for name, c in curves.items()), flush=True)
    return curves, scores, seconds


def learn_by_torch(task, weights, seed, args, results):
    import torch

    from learning import torchs
    torch.set_num_threads(args.threads)
    curves, scores, seconds = results
    begin = time.perf_counter()
    losses, learnt = torchs.curve(task, weights, seed, task.steps)
    seconds["torch"] = seconds.get("torch", 0.0) + (time.perf_counter() - begin) / task.steps / args.seeds
    curves.setdefault("torch", []).append(losses)
    scores.setdefault("torch", []).append(torchs.score(task, learnt))


def check_killed(task, tools, args, folder):
    """Whether curves and states have equal bits."""
    artefact = ours.make_step(tools, task, task.weights(0), folder, args.train_flags.split())
    undisturbed = ours.curve(task, ours.Trainer(tools.library, artefact), 0, task.steps)
    words = ["--of", task.name, "--artefact", artefact, "--library", tools.library]
    if args.dropout is not None:
        words += ["--dropout", args.dropout]
    resumed, kills = killed.resumed_curve(words, folder / "killed", task.steps)
    same = np.array_equal(undisturbed.astype(np.float32).view(np.uint32), resumed.view(np.uint32))
    print(f"{task.name}: {task.steps} steps, killed {kills} times and resumed: "
          + ("the same bits" if same else "OTHER BITS"))
    return same and kills > 0


def main():
    args = parse_arguments()
    if args.task == "go-on":
        task = task_of(args.of, args)
        killed.go_on(task, args.library, args.artefact, args.folder, 0, task.steps)
        return 0
    task, tools = task_of(args.task, args), artefacts.find_tools(args.tilewright)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        if args.kill:
            return 0 if check_killed(task, tools, args, folder) else 1
        curves, scores, seconds = learn(task, tools, args, folder)
    skipped = [int(np.isnan(c).sum()) for c in curves["tilewright"]]
    result = {"task": task.name, "steps": task.steps, "batch": task.batch, "dropout": task.dropout,
              "threads": args.threads, "train_flags": args.train_flags, "held_out": scores, "skipped_steps": skipped,
              "ms_per_step": {name: 1e3 * s for name, s in seconds.items()}}
    if "torch" in curves and args.seeds > 1:
        result["verdict"] = judge.compare(curves["tilewright"], curves["torch"])
        print(json.dumps(result["verdict"], indent=1))
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"{task.name}.json").write_text(json.dumps({**result, "curves": curves}) + "\n")
    (args.out / f"{task.name}.svg").write_text(picture.draw(f"{task.name}: loss, {args.seeds} seeds", curves))
    return 0 if result.get("verdict", {"alike": True})["alike"] else 1


if __name__ == "__main__":
    sys.exit(main())
