"""Whether a call fits: inequalities of the recorded buffers, rules, limits, remedies, the buffer map.

`verdict_of` is the entry. Tile sizes and core counts that make the best of what fits are planning's.
"""
