"""A run that may be killed at any moment and goes on from what it saved: its curve, bit for bit, is that of one that
nobody disturbed."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np

from . import ours

SAVE_EVERY = 15
CURVE, STATE = "curve.f32", "state.safetensors"


def go_on(task, library, artefact, folder, seed, steps):
    """Trains to the end from the state saved in `folder`, or from the beginning. Losses are appended to a file."""
    trainer, folder = ours.Trainer(library, artefact), pathlib.Path(folder)
    if (folder / STATE).exists():
        trainer.load(folder / STATE)
    states = trainer.states()
    first = int(states.get("runs", states["step"]))  # runs count those that were left out, too
    with open(folder / CURVE, "ab") as curve:
        curve.truncate(4 * first)  # what came after the state was saved is done again

        def keep(step, loss):
            curve.write(np.float32(loss).tobytes())
            curve.flush()
            if (step + 1) % SAVE_EVERY == 0:
                trainer.save(folder / STATE)
        ours.curve(task, trainer, seed, steps, first, keep)
        trainer.save(folder / STATE)


def losses(folder):
    path = pathlib.Path(folder) / CURVE
    return np.fromfile(path, np.float32) if path.exists() else np.zeros(0, np.float32)


def kill_at(command, folder, step):
    """Runs the command until its curve has that many steps, then kills it."""
    process = subprocess.Popen(command)
    while len(losses(folder)) < step and process.poll() is None:
        time.sleep(0.002)
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def resumed_curve(words, folder, steps, kills=(0.3, 0.7)):
    """The curve of `learn.py go-on` with these words, killed at these shares of its steps; how often it was."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(pathlib.Path(__file__).parent.parent / "learn.py"), "go-on", *map(str, words),
               "--folder", str(folder), "--steps", str(steps)]
    killed = sum(kill_at(command, folder, int(share * steps)) for share in kills)
    subprocess.run(command, check=True)
    return losses(folder), killed
