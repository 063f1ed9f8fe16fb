"""Time of a plan: the timeline, its events, instruction counts, bounds, and the sources of its parameters.

Results are numbers and records. Their presentation is render's.
"""
