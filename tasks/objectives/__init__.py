"""Reasons to train: one objective, one file, whole."""
