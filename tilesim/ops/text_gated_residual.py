"""The gated hyper-connection TextGatedResidual, and what its backward needs saved.

Source: the forward formulas in the vendor's document of TextGatedResidualGrad (ops-transformer, pull request 15537).
The vendor documents no interface of its own for it, so ranges and status codes are those of the backward.
"""

from __future__ import annotations

from tilesim.operator import Argument, Attribute, Operator, Option, Rule, result
from tilesim.ops.text_gated_residual_grad import BATCH, CHANNELS, DEPTH, FEATURES, SEQUENCE, channels_divide
from tilesim.program import Kernel
from tilesim.rules import (
    countable,
    dtype_is,
    dtype_same,
    dtype_supported,
    in_range,
    multiple,
    not_null,
    shape,
    whole_group,
)
from tilesim.status import INNER_NULLPTR, PARAM_INVALID

TENSORS = (
    Argument("x", "B S D"),
    Argument("wDown", "R D"),
    Argument("wUp", "D R"),
    Argument("wGate", "C D", option="inject"),
    Argument("gamma", "D", dtype="float32", option="gamma"),
    result("mixed", "B S H"),
    result("invRms", "B S C", dtype="float32"),
    result("downPreAct", "B S R"),
    result("up", "B S D"),
    result("inject", "B S C", option="inject"),
)


def kernel(k: Kernel) -> None:
    """The tile program."""


text_gated_residual = Operator(
    name="text_gated_residual",
    api="",
    about="gated hyper-connection of a language model",
    dims=(BATCH, SEQUENCE, CHANNELS, FEATURES, DEPTH),
    derived={"D": "C*H"},
    tensors=TENSORS,
    lead="x",
    options=(Option("inject"), Option("gamma")),
    attributes=(Attribute("channels", dim="C"), Attribute("eps", default=1e-6)),
    dtypes=dict.fromkeys(("950", "a3", "a2"), ("bfloat16", "float16")),
    dtype="bfloat16",
    rules=(
        *not_null(*(t.name for t in TENSORS if not t.option)),
        whole_group("inject", ("wGate", "inject")),
        dtype_supported("x"),
        *(dtype_same(t.name, "x") for t in TENSORS if not t.dtype and t.name != "x"),
        *(dtype_is(t.name, t.dtype) for t in TENSORS if t.dtype),
        in_range(CHANNELS, "channels"),
        Rule("channels divide D", PARAM_INVALID, channels_divide, "channels"),
        in_range(FEATURES, "mixed"),
        in_range(DEPTH, "wDown"),
        *countable(("B", "S"), "x"),
        *(shape(t.name) for t in TENSORS),
        multiple(FEATURES, "mixed", status=INNER_NULLPTR),
        multiple(DEPTH, "wDown", status=INNER_NULLPTR),
    ),
    kernel=kernel,
    overflow=INNER_NULLPTR,
)
