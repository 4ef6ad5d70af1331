#!/usr/bin/env python3
"""Prints `PASSED FAILED NOT_RUN` of a JUnit file that ctest (--output-junit) or pytest (--junitxml) wrote.

Not run: disabled tests, and tests that said themselves that they were skipped. A test that could not be started
(its program is missing, its fixture failed) counts as failed.
"""
import sys
import xml.etree.ElementTree as ElementTree


def counts(path):
    passed = failed = not_run = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        status, skipped = case.get("status"), case.find("skipped")
        reason = (skipped.get("message") or "") if skipped is not None else ""
        if status is None:  # pytest's
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
            elif skipped is not None:
                not_run += 1
            else:
                passed += 1
        elif status == "run":
            passed += 1
        elif status == "disabled" or reason.startswith("SKIP_"):
            not_run += 1
        else:
            failed += 1
    return passed, failed, not_run


if __name__ == "__main__":
    print(*counts(sys.argv[1]))
