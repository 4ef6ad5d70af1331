#!/usr/bin/env python3
"""run_command_tests.py CLASS: one class of the modules of tests below; exit code 77 when all of its tests were skipped."""
import sys
import unittest

import advise_test
import analyze_test
import command_test
import ranges_test
import reading_test
import signature_test
import surroundings_test
import train_test
import versions_test

MODULES = (advise_test, analyze_test, command_test, ranges_test, reading_test, signature_test, surroundings_test, train_test, versions_test)

if __name__ == "__main__":
    found = [getattr(module, sys.argv[1]) for module in MODULES if hasattr(module, sys.argv[1])]
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(found[0])
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    for _, reason in result.skipped:
        print(f"not run: {reason}")
    sys.exit(1 if not result.wasSuccessful() else 77 if len(result.skipped) == result.testsRun else 0)
