"""Hardware units of tile programs."""

from __future__ import annotations

from typing import Final

BLOCK_BYTES: Final = 32
"""The unit of on-chip allocation and of a row's pitch. Source: vendor's data block, `AICoreSpec.ubblock_size`."""

VECTOR_BYTES: Final = 256
"""Bytes of a vector register."""

LANES: Final = VECTOR_BYTES // 4
"""Elements of float32 in a vector register."""

FRACTAL: Final = 16
"""Side of the blocks that the cube multiplies. Source: vendor's platform files, `AICoreSpec.cube_m_size`."""
