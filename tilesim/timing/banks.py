"""Banks of the unified buffer: whether what an instruction reads at once collides, from the addresses alone.

An address names a bank group by the bits above a block of 32 bytes. A vector of 256 bytes spans eight neighbouring
groups, and a group gives one block in a cycle. Source: vendor's documents on bank conflicts, arch 2201: 16 groups.
"""

from __future__ import annotations

from tilesim.chip.tables import UnifiedBuffer
from tilesim.program.buffers import BLOCK_BYTES


def collide(ub: UnifiedBuffer, first: int, second: int, length_bytes: int) -> bool:
    """Whether reading `length_bytes` at two addresses [bytes] in the same cycle asks one bank group twice.

    Two operands whose addresses differ by half of the groups do not collide; equal addresses always do.
    """
    blocks = -(-length_bytes // BLOCK_BYTES)
    apart = (second // BLOCK_BYTES - first // BLOCK_BYTES) % ub.bank_groups
    return apart < blocks or ub.bank_groups - apart < blocks
