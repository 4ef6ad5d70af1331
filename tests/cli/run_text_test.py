#!/usr/bin/env python3
"""Runs one text test: IR with the commands that are run on it and what they must print.

  run_text_test.py TW_OPT FILECHECK FILE            checks
  run_text_test.py TW_OPT FILECHECK FILE --update   writes the CHECK lines anew from what tw-opt prints; read the diff

FILE holds, as comments of the IR:
  # RUN: --pass=unroll %s       options of tw-opt; %s is FILE, %S its folder
  # EXIT: 3                     wanted exit code (default 0)
  # CHECK.. lines               for FileCheck, against stdout and stderr together
"""
import argparse
import pathlib
import re
import subprocess
import sys


def directive(text, name, default=None):
    found = re.search(rf"^# {name}: *(.*)$", text, re.MULTILINE)
    if not found and default is None:
        sys.exit(f"no '# {name}:' line")
    return found.group(1).strip() if found else default


def check_lines(output):
    """CHECK lines that describe `output` line by line."""
    kinds = {True: "CHECK-EMPTY:", False: "CHECK-NEXT: "}
    lines = [f"# {kinds[not line]}{line}".rstrip() for line in output.splitlines()]
    return [lines[0].replace("CHECK-NEXT", "CHECK", 1), *lines[1:]]


def update(path, text, output):
    kept = [line for line in text.splitlines() if not re.match(r"# CHECK[A-Z-]*:", line)]
    while kept and not kept[-1].strip():
        kept.pop()
    path.write_text("\n".join([*kept, "", *check_lines(output)]) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tw_opt")
    parser.add_argument("filecheck")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    text = args.file.read_text()
    words = [w.replace("%s", str(args.file)).replace("%S", str(args.file.parent)) for w in directive(text, "RUN").split()]
    done = subprocess.run([args.tw_opt, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    wanted = int(directive(text, "EXIT", "0"))
    if done.returncode != wanted:
        sys.exit(f"{' '.join(words)}\nexit code {done.returncode}, wanted {wanted}\n{done.stdout}")
    if args.update:
        update(args.file, text, done.stdout)
        return 0
    return subprocess.run([args.filecheck, str(args.file)], input=done.stdout, text=True, timeout=60).returncode


if __name__ == "__main__":
    sys.exit(main())
