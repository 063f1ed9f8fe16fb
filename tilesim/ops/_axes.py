"""The dims of library operators that work along one axis of a tensor of any rank."""

from tilesim.operators import Dimension

X = Dimension("X", least=0)
"""The product of the sizes before the axis."""
N = Dimension("N")
"""The axis, or half of it where it is split in two."""
Y = Dimension("Y", least=0)
"""The product of the sizes after the axis."""
