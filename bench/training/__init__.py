"""Whole training steps, beside torch: what bench/train.py measures."""
