"""The language of tile programs: sizes, buffers, the instruction table, the recorder, and the nest of loops recorded.

A program says which instructions run on which buffers in which order. What they cost, where buffers lie and what their
values are belongs to wings above; no chip and no operator is known here.
"""
