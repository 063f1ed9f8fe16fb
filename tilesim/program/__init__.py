"""The language of tile programs: sizes, buffers, the instruction table, the recorder, and the nest of loops recorded.

A program states which instructions run on which buffers in which order. Costs, addresses and values belong to the wings
above; no module of this wing knows a chip or an operator.
"""
