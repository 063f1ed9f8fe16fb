"""Measurements of real kernels: files, profiles, validation of predictions, fits of chip parameters, error bands.

What a kernel is to measurements is stated by its operator; no operator is named here.
"""
