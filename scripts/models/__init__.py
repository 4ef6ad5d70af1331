"""Seeded ONNX models for tests and benchmarks, built with onnx.helper and numpy alone."""
