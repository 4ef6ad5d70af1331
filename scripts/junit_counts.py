#!/usr/bin/env python3
"""Prints `PASSED FAILED NOT_RUN` of a JUnit file that ctest (--output-junit) or pytest (--junitxml) wrote;
with --failed what each failed test of ctest printed last.

Not run: disabled tests, and tests that said themselves that they were skipped. A test that could not be started
(its program is missing, its fixture failed) counts as failed.
"""
import sys
import xml.etree.ElementTree as ElementTree

PASSED, FAILED, NOT_RUN = range(3)


def cases(path):
    return ElementTree.parse(path).getroot().iter("testcase")


def outcome(case):
    status, skipped = case.get("status"), case.find("skipped")
    if status is None:  # pytest's
        if case.find("failure") is not None or case.find("error") is not None:
            return FAILED
        return PASSED if skipped is None else NOT_RUN
    if status == "run":
        return PASSED
    reason = (skipped.get("message") or "") if skipped is not None else ""
    return NOT_RUN if status == "disabled" or reason.startswith("SKIP_") else FAILED


def counts(path):
    outcomes = [outcome(case) for case in cases(path)]
    return tuple(outcomes.count(kind) for kind in (PASSED, FAILED, NOT_RUN))


def failures(path, lines=40):
    """A text for each failed test: its name and the last lines that it printed."""
    for case in cases(path):
        if outcome(case) == FAILED:
            yield "\n".join([f"{case.get('name')} FAILED:", *(case.findtext("system-out") or "").splitlines()[-lines:]])


if __name__ == "__main__":
    if "--failed" in sys.argv[2:]:
        print("\n\n".join(failures(sys.argv[1])))
    else:
        print(*counts(sys.argv[1]))
