"""What Sinkhorn's normalisation and its backward share: sizes, rules, and how tokens are split.

The backward reads what the forward saves tile by tile, so both take the same tile. The vendor's host code counts the
bytes of both and takes the smaller tile.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilesim.chip.chip import Chip
from tilesim.kernels import REGISTERS, Kernel, Phase, Range, Value
from tilesim.operators import Call, Dimension, Numbers, any_of, equal

TOKENS = Dimension("T")
"""Matrices: the product of the axes before the last two."""
SIDE = Dimension("N", least=0)
MOST_ITERATIONS = 100
ITERATIONS = Dimension("num_iters", most=MOST_ITERATIONS, default=20)
T, N, K = TOKENS.size, SIDE.size, ITERATIONS.size

LANES = 8
"""Places of a row in a block of 32 bytes, whatever n."""
SAVED_NORM, SAVED_SUM = "16*num_iters*T*N", "16*num_iters*T"
"""Shapes of what is saved: 2K steps of a matrix, and of the sums that it was divided by, in rows of 8."""
ONE_OF_THREE = any_of(*(equal(N, n) for n in (4, 6, 8)))
KEPT_BYTES = 832
"""What the tiling leaves to lane masks, indices and scratch of the library."""


def keep_back(k: Kernel) -> None:
    """Reserve what the tiling leaves to the library."""
    k.reserve("library", KEPT_BYTES, "lane masks, indices and scratch; source: the vendor's host code")


def tile_of(call: Call, chip: Chip, kernel: Kernel) -> int:
    """Tokens of a tile by the bytes of a kernel: all of a core's if they fit, else as many eights as single ones do."""
    each = -(-call.dims.get("T", 1) // chip.cores.vector)
    room = chip.memory.ub.visible_bytes - KEPT_BYTES
    (phase,) = kernel.phases
    whole, single = (int(phase.bytes("ub").bind({**call.env, "tokens": tokens})) for tokens in (each, 1))
    return each if whole <= room else max(room // single // LANES * LANES, 0)


def row(p: Phase, name: str, source: Value) -> Value:
    """One row of every matrix of a tile, in registers."""
    return p.vld(source, out=p.buffer(name, source.shape, space=REGISTERS))


def rows_of(t: Range, i: Range) -> Range:
    """Where row i of every matrix of a tile lies in a buffer of rows, [row][token]."""
    return Range(i.start * t.size, t.size)


def loops_of(tokens: int, tile: int) -> tuple[int, int]:
    """(tiles, tokens of the last one) of a core; one tile of all where the vendor's tile is 0."""
    loops = -(-tokens // tile) if tile else 1
    return loops, tokens - (loops - 1) * tile


def tiles_of(numbers: Numbers) -> Iterator[tuple[int, int]]:
    """(first token, tokens) of every tile of a plan, in the order in which they lie in what is saved."""
    tokens = int(numbers["T"])
    if not tokens:
        return
    each = -(-tokens // int(numbers["token.parts"]))
    for start in range(0, tokens, each):
        for at in range(start, min(start + each, tokens), int(numbers["tokens"])):
            yield at, min(int(numbers["tokens"]), start + each - at, tokens - at)
