"""Analyses over many plans: sweeps, what-ifs, sensitivities, the chip that meets a target, other tilings.

Results are tables. Each point is one verdict and one plan of the wings below.
"""
