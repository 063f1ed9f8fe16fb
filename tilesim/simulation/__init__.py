"""How long a plan takes, why, and what that rests on: the timeline, its events, counts, bounds and sources.

Results are numbers and records. Their presentation is render's.
"""
