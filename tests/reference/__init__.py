"""Independent float64 references of every operator, written from the formulas alone.

Nothing here imports tilesim: a mistake in the library can not hide behind the same mistake in its reference.
Every function takes a mapping of tensors under their documented names, of any dtype that numpy can widen to
float64, and returns a mapping of float64 outputs.
"""
