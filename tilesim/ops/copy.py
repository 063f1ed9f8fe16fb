"""A tensor copied through the unified buffer."""

from __future__ import annotations

from tilesim.kernels import Kernel, flat_tiles, pointwise, with_integers
from tilesim.operators import Arrays, Numbers


def kernel(k: Kernel) -> None:
    """Record the phase."""
    with k.vector("copy") as p:
        for t in flat_tiles(k, p):
            t.store(t.load("x", widen=False), "y")


def reference(given: Arrays, _: Numbers) -> Arrays:
    """The tensor itself."""
    return {"y": given["x"]}


copy = pointwise(
    "copy",
    kernel,
    api="aclnnInplaceCopy",
    about="copy",
    inputs="x",
    families=with_integers("int8", "int32", "int64"),
    reference=reference,
    kernel_names=("Copy", "Identity", "TensorMove"),
    accuracy_class="elementwise",
)
