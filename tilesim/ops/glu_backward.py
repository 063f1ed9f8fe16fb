"""Gradient of GLU: both halves of `self` along one axis, from the gradient of a * sigmoid(b).

Source: the vendor's document of aclnnGluBackward, and its public host code (ops-nn, activation/glu_grad) for the order
of the checks, for which route runs and for the tiling. On chips with vector registers one kernel of its own runs; on
others, and for float64, the call is composed of other operators.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import (
    EMPTY,
    REGISTERS,
    Kernel,
    Phase,
    Size,
    Tensor,
    Value,
    View,
    dim,
    itemsize,
    one_minus,
    sigmoid,
)
from tilesim.kernels.elementwise import cast, elementwise
from tilesim.operators import (
    DTYPE,
    TILING_ERROR,
    UNKNOWN,
    VISIBLE_UB_BYTES,
    Argument,
    Arrays,
    Attribute,
    Call,
    Condition,
    Dimension,
    Numbers,
    OneOf,
    Operator,
    Rule,
    Texts,
    Tolerance,
    VendorTiling,
    Work,
    absent,
    all_of,
    any_of,
    at_most,
    axis_even,
    axis_exists,
    dtype_of,
    dtype_same,
    dtype_supported,
    equal,
    less,
    logistic,
    not_null,
    rank,
    result,
    shape,
    sizes_exist,
    ub_beyond,
    unknown,
)
from tilesim.ops._axes import X, Y
from tilesim.program.units import BLOCK_BYTES, LANES

N = Dimension("N", least=0)
"""Half of the axis that is split."""

MOST_AXES = 8
KEPT_BYTES = 8192
"""Bytes of the unified buffer that the tiling leaves to the library."""
WORDS_PER_ELEMENT = {"float32": 10, "float16": 14, "bfloat16": 14}
"""Words of 32 bits that the tiling counts for an element, or for two elements of 16 bits."""
WITH_BFLOAT16 = ("float32", "float16", "bfloat16", "float64")
FLOATS = ("float32", "float16", "float64")
DTYPES = {"950": WITH_BFLOAT16, "a3": WITH_BFLOAT16, "a2": WITH_BFLOAT16, "inference": FLOATS, "training": FLOATS}

DIMS = (X, N, Y)
HALF = N.size * Y.size
"""Elements of one half of a row of `self`, called ny by the vendor."""
Whole = TypeVar("Whole", int, Size)
"""A whole number, or a size that is not known yet."""
KEY_OF_DTYPE = {"float32": 0, "float16": 1, "bfloat16": 27}
KEY_OF_BIG = 1 << 8
SMALL, BIG = "small", "big"
"""The variants of the kernel: several rows at a time, and rows in parts."""
COMPOSITE, COMPOSITE_IN_PARTS = "composite", "composite in parts"
"""The variants of the composite: halves are moved in whole rows, or in parts of rows."""
FUSED = "glu_backward_fused"
"""Name of the vendor's kernel on any chip, which is planned for comparison with a composite."""


def kernel(k: Kernel) -> None:
    """Record the vendor's own kernel, or the composite of other operators that stands in for it.

    SMALL rows go several at a time, BIG ones in parts that the cores take in turn. Only five buffers
    of two slots take bytes, because the vector function keeps its values in registers.
    """
    if k.variant == EMPTY:
        k.route = EMPTY
    elif k.variant in (COMPOSITE, COMPOSITE_IN_PARTS):
        composite(k)
    else:
        fused(k, big=k.variant == BIG)


def fused(k: Kernel, *, big: bool) -> None:
    """Record the vendor's own kernel."""
    source, out = k["self"].reshape(X.size, 2, HALF), k["out"].reshape(X.size, 2, HALF)
    grad_out = k["gradOut"].reshape(X.size, HALF)
    with k.vector("backward") as p:
        if big:
            for t in p.loop("block", HALF, p.tile("part"), split="cyclic", rows=X.size):
                halves = gradients(p, source[t.row, 0, t], source[t.row, 1, t], grad_out[t.row, t])
                for i, half in enumerate(halves):
                    p.store(half, out[t.row, i, t])
        else:
            for t in p.loop("row", X.size, p.tile("rows"), split="block"):
                halves = gradients(p, source[t, 0], source[t, 1], grad_out[t])
                for i, half in enumerate(halves):
                    p.store(half, out[t, i])


def gradients(p: Phase, a_view: View, b_view: View, grad_view: View) -> tuple[Value, Value]:
    """Return gradOut*s and gradOut*a*s*(1 - s) with s = 1/(1 + exp(-b)), computed in float32 registers."""
    dtype, shape = a_view.dtype, a_view.shape

    def widened(view: View, name: str) -> Value:
        raw = p.vld(p.load(view, name=f"{name}In"), out=p.buffer(f"{name}Register", shape, dtype, space=REGISTERS))
        return raw if dtype == "float32" else p.cast(raw, out=p.buffer(f"{name}32", shape, space=REGISTERS))

    def stored(value: Value, name: str) -> Value:
        if dtype != "float32":
            value = p.cast(value, out=p.buffer(f"{name}16", shape, dtype, space=REGISTERS))
        return p.vst(value, out=p.buffer(f"{name}Out", shape, dtype, slots=2))

    a, b, grad = widened(a_view, "a"), widened(b_view, "b"), widened(grad_view, "grad")
    s = sigmoid(p, b, out=b)
    first = p.mul(grad, s, out=p.buffer("first", shape, space=REGISTERS))
    work = p.buffer("rest", shape, space=REGISTERS)
    second = p.mul(p.mul(p.mul(one_minus(p, s, out=work), s, out=work), a, out=work), grad, out=work)
    return stored(first, "gradA"), stored(second, "gradB")


def composite(k: Kernel) -> None:
    """Record SplitV, Sigmoid, Mul, Mul, Sub, Mul, ConcatD, each a launch; float16, not bfloat16, is cast to float32.

    Source: the host code of aclnnGluBackward for products without the kernel.
    """
    k.route, k.launches = "composite", True
    source, grad_out, out = k["self"].reshape(X.size, 2, HALF), k["gradOut"], k["out"].reshape(X.size, 2, HALF)
    dtype = "float32" if k.dtype == "float16" else k.dtype

    def workspace(name: str, *shape: Size | int) -> Tensor:
        return k.workspace(name, shape, dtype)

    if dtype != k.dtype:
        wide = workspace("self32", X.size, 2, HALF)
        elementwise(k, "Cast self", [source], [wide], cast)
        source, wide = wide, workspace("gradOut32", X.size, HALF)
        elementwise(k, "Cast gradOut", [grad_out], [wide], cast)
        grad_out = wide
    names = ("a", "b", "sigmoidB", "gradA", "aSigmoid", "aRest", "gradB")
    a, b, s, grad_a, a_s, a_rest, grad_b = (workspace(name, X.size, HALF) for name in names)
    copy_halves(k, "SplitV", [(source, i, half, None) for i, half in enumerate((a, b))])
    elementwise(k, "Sigmoid", [b], [s], lambda p, v: [sigmoid(p, v[0], out=v[0])])
    elementwise(k, "Mul gradOut", [grad_out, s], [grad_a], lambda p, v: [p.mul(v[0], v[1], out=v[0])])
    elementwise(k, "Mul a", [a, s], [a_s], lambda p, v: [p.mul(v[0], v[1], out=v[0])])
    elementwise(k, "Sub", [a, a_s], [a_rest], lambda p, v: [p.sub(v[0], v[1], out=v[0])])
    elementwise(k, "Mul gradA", [grad_a, a_rest], [grad_b], lambda p, v: [p.mul(v[0], v[1], out=v[0])])
    both = out if dtype == k.dtype else workspace("out32", X.size, 2, HALF)
    copy_halves(k, "ConcatD", [(half, None, both, i) for i, half in enumerate((grad_a, grad_b))])
    if dtype != k.dtype:
        elementwise(k, "Cast out", [both], [out], cast)


def copy_halves(k: Kernel, name: str, moves: Sequence[tuple[Tensor, int | None, Tensor, int | None]]) -> None:
    """Record a launch that copies halves between [X, HALF] and one half of [X, 2, HALF], in tiles of one size."""
    in_parts = k.variant == COMPOSITE_IN_PARTS
    with k.vector(name) as p:
        tile = p.tile("part", multiple_of=LANES) if in_parts else p.tile("rows")
        for i, (source, source_half, target, target_half) in enumerate(moves):
            if in_parts:
                for t in p.loop(f"half{i}", HALF, tile, split="cyclic", rows=X.size):
                    read = source[t.row, t] if source_half is None else source[t.row, source_half, t]
                    p.store(p.load(read), target[t.row, t] if target_half is None else target[t.row, target_half, t])
            else:
                for t in p.loop(f"half{i}", X.size, tile, split=True):
                    read = source[t] if source_half is None else source[t, source_half]
                    p.store(p.load(read), target[t] if target_half is None else target[t, target_half])


def variants(call: Call, chip: Chip) -> tuple[str, ...]:
    """Return EMPTY without elements, else the variant of the vendor's tiling, or both of the composite."""
    if not math.prod(call.dims.values()):
        return (EMPTY,)
    if route(call, chip) != "kernel":
        return COMPOSITE, COMPOSITE_IN_PARTS
    row = call.dims.get("N", 1) * call.dims.get("Y", 1)
    return (BIG if row > buffer_elements(call.dtype, chip.memory.ub.visible_bytes) else SMALL,)


def tiles(call: Call, chip: Chip) -> Mapping[str, int]:
    """Rows of a step, or elements of a part of a row, as in the vendor's tiling."""
    variant = variants(call, chip)[0]
    if variant not in (SMALL, BIG):
        return {}
    elements = buffer_elements(call.dtype, chip.memory.ub.visible_bytes)
    if variant == BIG:
        return {"part": elements}
    return {"rows": elements // row_pitch(call.dtype, call.dims["N"] * call.dims["Y"])}


def tiling(call: Call, chip: Chip, _: Mapping[str, int]) -> VendorTiling | None:
    """The 10 fields of the vendor's tiling. Source: its host code, activation/glu_grad."""
    variant = variants(call, chip)[0]
    if variant == EMPTY:
        return VendorTiling(None, None, 0, 0)
    if variant not in (SMALL, BIG):
        return None
    rows, row, cores = call.dims["X"], call.dims["N"] * call.dims["Y"], chip.cores.vector
    elements = buffer_elements(call.dtype, chip.memory.ub.visible_bytes)
    big = variant == BIG
    group, part = divmod(row, elements) if big else (elements // row_pitch(call.dtype, row), 0)
    rows_per_core = -(-rows // cores)
    cores_used = cores if big else -(-rows // rows_per_core)
    last = rows - rows_per_core * (cores_used - 1)
    loops, remainder = (rows * (group + (part > 0)), 0) if big else divmod(rows_per_core, group)
    tail_loops, tail_remainder = (part, 0) if big else (0, 0) if last == rows_per_core else divmod(last, group)
    data = {
        "group": group,
        "loopNum": loops,
        "tailLoopNum": tail_loops,
        "nLastTailGroup": remainder,
        "lastTailGroup": tail_remainder,
        "splitSize": elements if big else row,
        "realCoreNum": cores_used,
        "numPerCore": 0 if big else rows_per_core,
        "blockSize": BLOCK_BYTES // itemsize(call.dtype),
        "ny": row,
    }
    key = KEY_OF_DTYPE[call.dtype] | (KEY_OF_BIG if big else 0)
    # The tiling sizes its buffers without the 8 KiB, while the buffers may fill all bytes that are visible.
    return VendorTiling(data, key, cores_used, 0, chip.memory.ub.visible_bytes - KEPT_BYTES)


def vendor_counters(work: Work) -> Mapping[str, int]:
    """Counts of the vendor's kernel for one run of an instruction: blocks, registers of 256 bytes, copies, bytes."""
    op, target = work.instr.op, work.instr.dst.base.name
    if op == "copy":
        way = "in" if work.instr.pipe == "mte2" else "out"
        block = {"ub_blocks": 1} if target == "aIn" else {}
        return {f"dma_{way}": 1, f"bytes_{way}": work.bytes, **block}
    return {"register_iterations": work.vectors} if (op, target) == ("vld", "aRegister") else {}


def route(call: Call, chip: Chip) -> str:
    """Return "kernel" for the vendor's own, "composite" where other operators stand in for it."""
    spec = call.spec("self")
    if call.operator.name == FUSED:
        return "kernel"
    return "kernel" if chip.vector.registers and (spec.dtype if spec else call.dtype) != "float64" else "composite"


def buffer_elements(dtype: str, ub_bytes: Whole) -> Whole:
    """Elements of one of the tiling's buffers in a unified buffer of `ub_bytes`; below 0 for fewer than KEPT_BYTES."""
    per_word = 4 // itemsize(dtype)
    return (ub_bytes - KEPT_BYTES) // (WORDS_PER_ELEMENT[dtype] * 4) * per_word


def row_pitch(dtype: str, row: Whole) -> Whole:
    """Elements between rows of `row` elements in a buffer: a multiple of 32 bytes."""
    block = BLOCK_BYTES // itemsize(dtype)
    return -(-row // block) * block


def reference(given: Arrays, numbers: Numbers) -> Arrays:
    """Both halves of the gradient, [gradOut*s, gradOut*a*s*(1 - s)]."""
    dim, upstream = int(numbers["dim"]), given["gradOut"]
    a, b = np.split(given["self"], 2, axis=dim)
    return {"out": np.concatenate([upstream * logistic(b), upstream * a * logistic(b) * logistic(-b)], axis=dim)}


def magnitude(given: Arrays, numbers: Numbers) -> Arrays:
    """|gradOut| and |gradOut*a|, the terms of a - a*s, which cancel where b is large."""
    upstream, a = abs(given["gradOut"]), abs(np.split(given["self"], 2, axis=int(numbers["dim"]))[0])
    return {"out": np.concatenate([upstream, upstream * a], axis=int(numbers["dim"]))}


def tolerance(_: str, k: Kernel) -> Tolerance:
    """One rounding after arithmetic in float32; the composite in bfloat16 rounds between its kernels."""
    if k.route == "composite" and k.dtype == "bfloat16":
        return Tolerance("five roundings to bfloat16, two of them before a - a*s, which cancels", ulps=2.5, share=2**-7)
    ulps, share = {"float64": (4.0, 4e-16), "float32": (2.0, 2e-7)}.get(k.dtype, (0.55, 2e-7))
    return Tolerance("one rounding to the dtype, and the arithmetic before it", ulps=ulps, share=share)


ELSEWHERE = equal(dim("vector.registers"), 0)
"""The condition that the chip has no vector registers, and so not the vendor's own kernel."""
INCOMPLETE = any_of(*(any_of(unknown(d.name), less(d.size, d.least)) for d in DIMS))
"""The condition that a dim is not known or below its least."""


def rules(kernel_runs: Condition) -> tuple[Rule, ...]:
    """Return the rules of the first call; `kernel_runs` is the condition that the vendor's own kernel runs."""
    empty = any_of(*(~unknown(d.name) & equal(d.size, 0) for d in DIMS))
    not_tiled = ~kernel_runs | empty
    return (
        *not_null("self", "gradOut", "out"),
        dtype_supported("self", tiling=(2, "dtype"), everywhere=True),
        dtype_same("gradOut", "self"),
        dtype_same("out", "self"),
        rank("self", 0, MOST_AXES),
        rank("out", 0, MOST_AXES),
        rank("gradOut", 0, MOST_AXES),
        rank("self", 1, MOST_AXES),
        sizes_exist("self"),
        axis_exists("dim", "self", tiling=(3, "dim-range")),
        axis_even("dim", "self", "self", tiling=(4, "odd-split")),
        shape("gradOut"),
        shape("out"),
        ub_beyond(KEPT_BYTES, (1, "ub"), unless=not_tiled),
        a_row_fits(not_tiled),
    )


def dtype_among(dtypes: Sequence[str]) -> Condition:
    """The condition that the dtype of `self`, or of the call if `self` is absent, is one of `dtypes`."""
    return (~absent("self") & OneOf(dtype_of("self"), tuple(dtypes))) | (absent("self") & OneOf(DTYPE, tuple(dtypes)))


def a_row_fits(not_tiled: Condition) -> Rule:
    """The rule that a buffer of the tiling has room for a row with its padding, or for a part of a row."""

    def fits(dtype: str) -> Condition:
        elements = buffer_elements(dtype, VISIBLE_UB_BYTES)
        in_parts = at_most(1, elements) & less(elements, HALF)
        return dtype_among([dtype]) & (in_parts | at_most(row_pitch(dtype, HALF), elements))

    def texts(call: Call, chip: Chip) -> Texts:
        expected = "at least 1; the vendor's code would divide by zero"
        ub, dims, spec = chip.memory.ub.visible_bytes, call.dims, call.spec("self")
        dtype = spec.dtype if spec else call.dtype
        if untiled.holds(call.facts(chip)):
            return Texts(expected, "not counted")
        elements, row = buffer_elements(dtype, ub), dims["N"] * dims["Y"]
        if row > elements >= 1:
            return Texts(expected, f"a part of a row, {elements} elements")
        pitch = row_pitch(dtype, row)
        return Texts(expected, f"{elements // pitch} (a row takes {pitch} elements, a buffer has {elements})")

    no_bytes = at_most(VISIBLE_UB_BYTES, KEPT_BYTES)
    untiled = any_of(not_tiled, INCOMPLETE, ~dtype_among(tuple(WORDS_PER_ELEMENT)), no_bytes)
    condition = any_of(untiled, *map(fits, WORDS_PER_ELEMENT))
    return Rule("rows of a buffer", TILING_ERROR, condition, "platform", texts, (6, "group"))


def dtype_of_kernel() -> Rule:
    """The rule of the tiling that its kernel has the dtype of `self`."""

    def texts(call: Call, _: Chip) -> Texts:
        spec = call.spec("self")
        return Texts(" or ".join(WORDS_PER_ELEMENT), spec.dtype if spec else UNKNOWN)

    condition = any_of(absent("self"), ELSEWHERE, OneOf(dtype_of("self"), tuple(WORDS_PER_ELEMENT)))
    return Rule("self dtype of the kernel", None, condition, "self", texts, (2, "dtype"))


def has_elements() -> Rule:
    """The rule of the tiling that `self` has elements."""

    def texts(call: Call, _: Chip) -> Texts:
        return Texts("at least 1 element", str(math.prod(call.dims.values())))

    condition = any_of(ELSEWHERE, INCOMPLETE, all_of(*(at_most(1, d.size) for d in DIMS)))
    return Rule("self elements", None, condition, "self", texts, (5, "empty"))


composed = Operator(
    name="glu_backward",
    api="aclnnGluBackward",
    about="gradient of a gated linear unit",
    dims=DIMS,
    tensors=(Argument("gradOut", "*X N *Y"), Argument("self", "*X 2*N *Y"), result("out", "*X 2*N *Y")),
    lead="self",
    attributes=(Attribute("dim", default=-1),),
    split="dim",
    dtypes=DTYPES,
    dtype="float32",
    rules=rules(~ELSEWHERE & ~dtype_among(["float64"])),
    tiling_only_rules=(
        ub_beyond(KEPT_BYTES, (1, "ub"), name="ub of the kernel", status=None, unless=ELSEWHERE),
        dtype_of_kernel(),
        has_elements(),
    ),
    kernel=kernel,
    variant=variants,
    tiles=tiles,
    tiling=tiling,
    forward="glu",
    reference=reference,
    magnitude=magnitude,
    tolerance=tolerance,
    vendor_counters=vendor_counters,
)
glu_backward = replace(
    composed,
    fused=replace(
        composed,
        name=FUSED,
        rules=rules(all_of()),
        dtypes={family: [d for d in dtypes if d in WORDS_PER_ELEMENT] for family, dtypes in DTYPES.items()},
    ),
)
