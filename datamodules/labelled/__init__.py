"""Labelled examples in the file formats that people publish them in: a class a format, each yields records of `examples.py`."""
