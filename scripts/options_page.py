#!/usr/bin/env python3
"""Keeps docs/reference/options.md what the tables of options say.

  scripts/options_page.py --tilewright PATH            writes it anew
  scripts/options_page.py --tilewright PATH --check    compares; exit code 1 and a diff when they differ
"""
import argparse
import difflib
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "reference" / "options.md"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilewright", required=True, type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    text = subprocess.run([args.tilewright, "options"], check=True, capture_output=True, text=True, timeout=60).stdout
    if not args.check:
        PAGE.write_text(text)
        return 0
    old = PAGE.read_text() if PAGE.exists() else ""
    if text == old:
        return 0
    sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), str(PAGE), "the tables"))
    print("docs/reference/options.md is out of date: run scripts/options_page.py without --check")
    return 1


if __name__ == "__main__":
    sys.exit(main())
