#!/usr/bin/env bash
# A million random sequences of layout primitives on tensors and operators (tests/te/layout_property_test.cpp): a minute
# or two. scripts/layout_sequences.sh [BUILD [COUNT]]
set -euo pipefail
TW_TEST_LAYOUTS="${2:-1000000}" "${1:-build/dev}/tests/test_te" --gtest_filter='LayoutProperty.*'
