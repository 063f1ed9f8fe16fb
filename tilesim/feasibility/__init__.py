"""Feasibility of a call: inequalities of the recorded buffers, rules, limits, remedies, the buffer map.

`verdict_of` is the entry. Tile sizes and core counts that use the memory best are planning's.
"""
