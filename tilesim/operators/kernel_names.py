"""What vendors and benchmarks call kernels, and which operator of ours each of them is."""

from __future__ import annotations

from collections.abc import Mapping

from tilesim.chip.chip import Chip

NAMES: Mapping[str, str] = {
    "add": "add",
    "addcdiv": "addcdiv",
    "adamw": "adam_w",
    "applyadamw": "adam_w",
    "applyadamwv2": "adam_w",
    "copy": "copy",
    "dynamicquant": "dynamic_quant",
    "exp": "exp",
    "foreachaddcdivscalar": "addcdiv",
    "gelu": "gelu",
    "geluv2": "gelu",
    "gemm": "matmul",
    "identity": "copy",
    "matmul": "matmul",
    "matmulv2": "matmul",
    "matmulv3": "matmul",
    "maximum": "maximum",
    "mish": "mish",
    "mul": "mul",
    "rmsnorm": "rms_norm",
    "sigmoid": "sigmoid",
    "softmax": "softmax",
    "softmaxv2": "softmax",
    "swiglu": "swi_glu",
    "tensormove": "copy",
}
"""Kernel types of the vendor's profiler and of benchmarks, lower case without underscores, to our operators."""


def library_entry(chip: Chip, operator: str) -> str:
    """The name under which the chip's file has the vendor's kernel of an operator of ours; "" if it has none.

    An entry may have our name or any that the vendor has for it.
    """
    if operator in chip.kernels:
        return operator
    return next((name for name in chip.kernels if NAMES.get(name.replace("_", "").lower()) == operator), "")
