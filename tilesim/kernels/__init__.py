"""The parts that kernels are written with: the language of tile programs, composites, loops over tiles, matmul.

An operator file imports the parts of its kernel from here and its declarations from `tilesim.operators`. Everything in
this wing is a plain function of recorded instructions, without bytes, cycles or values of its own. No module of this
wing names a shipped operator.
"""

from tilesim.kernels.composites import FixedOrderSum, compensated_add, load_as, one_minus, sigmoid, store_as
from tilesim.kernels.elementwise import EMPTY, FAMILIES, ElementTile, flat_tiles, pointwise, with_integers
from tilesim.kernels.matrix_product import matmul
from tilesim.kernels.rows import LONG, WHOLE, Parts, RowTile, column_tiles, grid_tiles, row_tiles, row_variants
from tilesim.program.buffers import Buffer, Range, Tensor, Value, View
from tilesim.program.dtypes import itemsize
from tilesim.program.isa import REGISTERS
from tilesim.program.nodes import Operand, Target
from tilesim.program.recorder import Kernel, Phase
from tilesim.program.sizes import ONE, Scalar, Size, align, attribute, bit_length, ceil_div, dim, ln

__all__ = [
    "EMPTY",
    "FAMILIES",
    "LONG",
    "ONE",
    "REGISTERS",
    "WHOLE",
    "Buffer",
    "ElementTile",
    "FixedOrderSum",
    "Kernel",
    "Operand",
    "Parts",
    "Phase",
    "Range",
    "RowTile",
    "Scalar",
    "Size",
    "Target",
    "Tensor",
    "Value",
    "View",
    "align",
    "attribute",
    "bit_length",
    "ceil_div",
    "column_tiles",
    "compensated_add",
    "dim",
    "flat_tiles",
    "grid_tiles",
    "itemsize",
    "ln",
    "load_as",
    "matmul",
    "one_minus",
    "pointwise",
    "row_tiles",
    "row_variants",
    "sigmoid",
    "store_as",
    "with_integers",
]
