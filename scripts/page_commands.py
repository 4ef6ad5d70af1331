"""Runs the command blocks of pages, for scripts/walkthrough.py --commands.

Every block of code of a page names its language. Run are, in their order and in one folder for each page:
  sh        commands; all of them must succeed
  console   commands behind `$ `, and what they print. A command must succeed, unless the next one is `echo $?`.
            The lines shown must be among those printed, in their order. Words with digits, and units behind them,
            may be others; `...` at the end of a line stands for any words.
  python    in one interpreter for each page
Comments in the page's source, each on a line of its own, say more:
  <!-- not run: REASON -->  before a block: it is counted and its reason printed, for example that it needs a GPU
  <!-- file: NAME -->       before a block: it becomes a file of the page's folder
  <!-- setup: COMMANDS -->  what a reader is supposed to have already; its exports hold for the rest of the page. It
                            knows ROOT (the project), BUILD (its build folder) and PYTHON (an interpreter with onnx)
"""
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

COMMENT = re.compile(r"<!-- (not run|file|setup): (.*?) -->$")
UNITS = {"ns", "us", "ms", "s", "B", "kB", "MB", "GB", "MiB", "GFLOP/s", "GB/s", "runs", "inferences"}
RUN = ("sh", "console", "python")
SHOWN = ("text", "c", "cpp", "cmake", "json")
PATIENCE = 120  # seconds for a block
MARK = "\x1eended "
# Takes blocks as lines of JSON, runs them in one namespace, and says after each whether it went well.
PYTHON_LOOP = """
import contextlib, json, sys, traceback
space = {"__name__": "__main__"}
for line in sys.stdin:
    ok = True
    try:
        exec(compile(json.loads(line), "<page>", "exec"), space)
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        ok = False
    print("%s" + str(int(not ok)), flush=True)
""" % MARK


class PageError(Exception):
    """A page that is not written as this module wants it."""


@dataclasses.dataclass
class Block:
    line: int
    language: str  # "setup" for the comment
    text: str
    reason: str = ""  # why it is not run
    file: str = ""


def blocks_of(page, text):
    """The blocks of a page. Raises PageError for one without a language, or a comment that belongs to none."""
    found, open_block, before = [], None, {}
    for number, line in enumerate(text.splitlines(), 1):
        if open_block is None and line.startswith("```"):
            open_block = Block(number, line[3:].strip(), "", before.get("not run", ""), before.get("file", ""))
            if open_block.language not in RUN + SHOWN:
                expected = ", ".join(RUN + SHOWN)
                raise PageError(f"{page}:{number}: a block of '{open_block.language}': expected {expected}")
            before = {}
        elif line.startswith("```"):
            found.append(open_block)
            open_block = None
        elif open_block is not None:
            open_block.text += line + "\n"
        elif comment := COMMENT.match(line):
            if comment.group(1) == "setup":
                found.append(Block(number, "setup", comment.group(2)))
            else:
                before[comment.group(1)] = comment.group(2)
        elif before:
            raise PageError(f"{page}:{number}: the comment before this line is followed by no block")
    if open_block is not None:
        raise PageError(f"{page}:{open_block.line}: the block has no end")
    return found


def transcript_of(text):
    """[(command, lines that it prints)] of a console block."""
    commands = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append([line[2:], []])
        elif commands and commands[-1][0].endswith("\\"):
            commands[-1][0] += "\n" + line
        elif commands:
            if line.strip():
                commands[-1][1].append(line)
        else:
            raise PageError(f"'{line}': a console block begins with '$ '")
    return commands


def is_like(shown, printed):
    """Whether a printed line is what the page shows, but for numbers and their units."""
    words, others = shown.split(), printed.split()
    if words and words[-1] == "...":
        words.pop()
        others = others[:len(words)]
    if len(words) != len(others):
        return False
    after_number = False
    for word, other in zip(words, others):
        is_free = bool(re.search(r"\d", word)) or (after_number and word.strip("(),;:") in UNITS)
        if not is_free and word != other:
            return False
        after_number = bool(re.search(r"\d", word))
    return True


def first_missing(shown, printed):
    """The first line shown that is not printed after those before it, or None."""
    rest = iter(printed)
    return next((line for line in shown if not any(is_like(line, other) for other in rest)), None)


class Python:
    """One interpreter for the Python blocks of a page."""

    def __init__(self, path, folder, environment):
        self.process = subprocess.Popen([path, "-u", "-c", PYTHON_LOOP], cwd=folder, env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, text):
        """(whether it went well, what it printed)"""
        self.process.stdin.write(json.dumps(text) + "\n")
        self.process.stdin.flush()
        printed = ""
        for line in self.process.stdout:
            if MARK in line:
                return line.split(MARK)[1].strip() == "0", printed + line.split(MARK)[0]
            printed += line
        return False, printed + "the interpreter ended"

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=PATIENCE)


class Runner:
    """Runs pages. `programs` come first on the PATH; `python` runs Python blocks, None: they are not run."""

    def __init__(self, root, build, programs, python, python_with_onnx):
        self.python = python
        self.environment = dict(os.environ, ROOT=str(root), BUILD=str(build or ""), PYTHON=str(python_with_onnx),
                                PATH=os.pathsep.join([*map(str, programs), os.environ["PATH"]]), NO_COLOR="1")
        self.root = root
        self.counts = {"run": 0, "not run": 0, "failed": 0}

    def say(self, page, block, kind, text):
        self.counts[kind] += 1
        print(f"{page}:{block.line}: {text}", flush=True)

    def run_page(self, page):
        """Counts each block of the page; True when all that were run did what the page says."""
        name = page.relative_to(self.root) if page.is_relative_to(self.root) else page
        failed_before = self.counts["failed"]
        with tempfile.TemporaryDirectory() as folder:
            session = Session(pathlib.Path(folder), self.environment, self.python)
            try:
                for block in blocks_of(name, page.read_text()):
                    self.run_block(name, session, block)
            except PageError as error:
                self.counts["failed"] += 1
                print(error)
            finally:
                session.close()
        return self.counts["failed"] == failed_before

    def run_block(self, page, session, block):
        if block.file:
            (session.folder / block.file).write_text(block.text)
        if block.file or block.language in SHOWN:
            return
        reason = block.reason
        if block.language == "python" and self.python is None:
            reason = reason or "there is no wheel here (scripts/python_tests.sh runs it)"
        if reason:
            self.say(page, block, "not run", f"not run: {reason}")
            return
        started = time.monotonic()
        wrong = getattr(session, block.language)(block.text)
        if wrong:
            self.say(page, block, "failed", f"FAILED: {wrong}")
        elif block.language != "setup":
            self.say(page, block, "run", f"run, {time.monotonic() - started:.1f} s")


class Session:
    """Folder, environment and interpreter of one page. A method for each language returns what is wrong, or None."""

    def __init__(self, folder, environment, python):
        # What one page compiled is not in the cache of the next one.
        self.folder, self.path = folder, python
        self.environment = environment | {"TILEWRIGHT_CACHE_DIR": f"{folder}/.cache"}
        self.python_process = None

    def close(self):
        if self.python_process:
            self.python_process.close()

    def bash(self, script):
        try:
            done = subprocess.run(["bash", "-c", script], cwd=self.folder, env=self.environment, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return 124, f"not done after {PATIENCE} s"
        return done.returncode, done.stdout

    def setup(self, text):
        kept = self.folder / ".environment"
        wrong = self.sh(f"{text}\nenv -0 > {kept}")
        if not wrong:
            lines = kept.read_text().split("\0")
            self.environment = dict(line.split("=", 1) for line in lines if "=" in line)
        return wrong

    def sh(self, text):
        code, printed = self.bash("set -euo pipefail\n" + text)
        return f"exit code {code}\n{text}{printed}" if code else None

    def console(self, text):
        commands = transcript_of(text)
        # `$?` is that of the command before, not that of the mark.
        mark = f"_code=$?; printf '\\n{MARK}%s\\n' $_code; (exit $_code)\n"
        script = "".join(f"{command}\n{mark}" for command, _ in commands)
        _, printed = self.bash(script)
        parts = re.split(f"\n{MARK}(\\d+)\n", printed)
        for i, (command, shown) in enumerate(commands):
            if 2 * i + 1 >= len(parts):
                return f"'{command}' did not end\n{printed}"
            is_asked = i + 1 < len(commands) and commands[i + 1][0] == "echo $?"
            if parts[2 * i + 1] != "0" and not is_asked:
                return f"'{command}': exit code {parts[2 * i + 1]}\n{parts[2 * i]}"
            exact = command == "echo $?"
            missing = next((s for s in shown if s not in parts[2 * i].split()), None) if exact else \
                first_missing(shown, parts[2 * i].splitlines())
            if missing is not None:
                return f"'{command}' does not print: {missing}\nit prints:\n{parts[2 * i]}"
        return None

    def python(self, text):
        self.python_process = self.python_process or Python(self.path, self.folder, self.environment)
        ok, printed = self.python_process.run(text)
        return None if ok else f"\n{text}{printed}"
