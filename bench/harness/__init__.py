"""Measures Tilewright and other engines on the same models, on the same cores, in turns."""
