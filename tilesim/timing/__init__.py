"""Price of a phase: bursts, bandwidth, cache reuse, the cycles of an instruction, the schedule of the pipes.

Prices depend on a phase, its sizes and a chip. The choice of the sizes is planning's, the sum over phases simulation's.
"""
