#!/usr/bin/env python3
"""run_command_tests.py CLASS: one class of command_test.py or surroundings_test.py; exit code 77 when all of its tests were skipped."""
import sys
import unittest

import command_test
import surroundings_test

if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(getattr(command_test, sys.argv[1], None) or getattr(surroundings_test, sys.argv[1]))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    for _, reason in result.skipped:
        print(f"not run: {reason}")
    sys.exit(1 if not result.wasSuccessful() else 77 if len(result.skipped) == result.testsRun else 0)
