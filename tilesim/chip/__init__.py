"""A chip's parameters, each with its source and status: tables, chip files, platform files, overrides.

Everything that differs between chips is a parameter of a chip file. The effect of a parameter on a program belongs to
the wing that computes with it.
"""
