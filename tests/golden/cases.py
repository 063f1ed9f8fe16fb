"""The kinds of golden cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.golden.packing import AnyArray


@dataclass(frozen=True)
class GradientCase:
    """Inputs and float64 gradients of one backward operator.

    16-bit inputs are carried exactly by float32. `errors` bounds how far an element of each stored gradient may be
    from the float64 value that it was made from: half a step of fixed point for the gated residual, the rounding to
    float32 for the convolution, 0 for GLU.
    """

    name: str
    about: str
    operator: str
    dtype: str
    attributes: dict[str, int]
    inputs: dict[str, AnyArray]
    expected: dict[str, npt.NDArray[np.float64]]
    errors: dict[str, float]


@dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype of a tensor that is described but not made."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Conv1dTiling:
    """A tiling of masked_causal_conv1d_backward that the vendor's host code accepts.

    `fits` is false where it accepts one row although the buffers exceed the memory. `transfers` and `vector` count
    what a main core does for each of its `main_h_tiles` tiles of 64 features.
    """

    name: str
    group: str
    dims: dict[str, int]
    mask: bool
    dtype: str
    cores: int
    ub_size_bytes: int
    tiling: dict[str, int]
    block_dim: int
    tiling_key: int
    rows_found: int
    ub_available_bytes: int
    ub_used_bytes: int
    ub_bytes_at_rows_found: int
    fits: bool
    main_h_tiles: int
    tail_h_tiles: int | None
    transfers: dict[str, int]
    vector: dict[str, int]


@dataclass(frozen=True)
class Conv1dRefusal:
    """Inputs that masked_causal_conv1d_backward refuses, the first check of the tiling that fails, and the status."""

    name: str
    tensors: dict[str, TensorSpec | None]
    cores: int
    ub_size_bytes: int
    parameter: str
    check: str
    status: int


@dataclass(frozen=True)
class GluTiling:
    """A tiling of glu_backward that the vendor's host code accepts, and the work that follows from it."""

    name: str
    group: str
    shape: tuple[int, ...]
    dim: int
    dtype: str
    cores: int
    ub_size_bytes: int
    tiling: dict[str, int]
    block_dim: int
    tiling_key: int
    mode: str
    buffer_elements: int
    outer: int
    ub_used_bytes: int
    ub_queue_bytes: int
    ub_available_bytes: int
    fits: bool
    workspace_bytes: int
    work: dict[str, int]


@dataclass(frozen=True)
class GluRefusal:
    """A shape that the tiling of glu_backward refuses; for check "undefined" the vendor's divides by zero."""

    name: str
    shape: tuple[int, ...]
    dim: int
    dtype: str
    cores: int
    ub_size_bytes: int
    check: str


@dataclass(frozen=True)
class GluStatus:
    """What the first call of glu_backward returns; `route` is "kernel", "composite", "empty" or None if refused."""

    name: str
    about: str
    tensors: dict[str, TensorSpec | None]
    dim: int
    soc: str
    status: int
    route: str | None


@dataclass(frozen=True)
class KinTiling:
    """A call of a gated unit, its gradients, a norm or the convolution, with its tiling or the check that fails."""

    name: str
    family: str
    shape: tuple[int, ...]
    dtype: str
    options: dict[str, Any]
    cores: int
    ub_bytes: int
    tiling: dict[str, float] | None
    block_dim: int | None
    tiling_key: int | None
    workspace_bytes: int | None
    variant: str | None
    check: str | None


@dataclass(frozen=True)
class GatedResidualLimit:
    """Status of a shape of text_gated_residual_grad on a product ("950", or "a2" which stands for a3 too).

    `capacity_words`, `greatest_h`, `stage_words` and `channel_words` are None and {} where the channels are out of
    range. Words have four bytes.
    """

    product: str
    dims: dict[str, int]
    status: int
    reason: str
    capacity_words: int | None
    greatest_h: int | None
    stage_words: dict[str, int]
    channel_words: int | None


@dataclass(frozen=True)
class MhcTiling:
    """A call of an operator of manifold hyper-connections, with its tiling or the check that the tiling fails.

    `tile_bytes` are those of one slot of every buffer, where the original states them.
    """

    name: str
    family: str
    shape: tuple[int, ...]
    dtype: str
    options: dict[str, int]
    cores: int
    cube_cores: int | None
    ub_bytes: int
    tiling: dict[str, float] | None
    block_dim: int | None
    template: tuple[int, ...] | None
    workspace_bytes: int | None
    variant: str | None
    tile_bytes: int | None
    check: str | None
