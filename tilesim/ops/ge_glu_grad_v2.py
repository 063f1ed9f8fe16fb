"""Gradient of the unit P * gelu(V) of two halves of `x` along one axis, from gelu(V), which the forward saves.

Source: the vendor's public host code and kernel (ops-nn, activation/ge_glu_grad_v2). Its document takes `dim` up to the
rank, its code one less; the code is followed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import EMPTY, Buffer, Kernel, Phase, Range, Size, Value, View, align, dim, itemsize
from tilesim.operators import (
    FAMILY,
    PARAM_INVALID,
    TILING_ERROR,
    Argument,
    Arrays,
    Attribute,
    Call,
    Numbers,
    OneOf,
    Operator,
    Rule,
    Texts,
    Tolerance,
    VendorTiling,
    all_of,
    any_of,
    at_most,
    axis_exists,
    dtype_same,
    dtype_supported,
    equal,
    logistic,
    not_null,
    rank,
    result,
    shape,
    unknown,
    within,
)
from tilesim.operators.reference import Array
from tilesim.ops._strips import ROW, WORKSPACE_BYTES, N, X, Y
from tilesim.ops.swi_glu import DTYPES
from tilesim.program.buffers import view
from tilesim.program.sizes import ZERO
from tilesim.program.units import BLOCK_BYTES

SHORT, WHOLE, PARTS = "short", "whole", "parts"
"""How rows are tiled: several of which both halves are one copy, several whole ones, parts of one."""
KEY_OF_TILING = {WHOLE: 0, PARTS: 1, SHORT: 2}
KEY_OF_FORM = {"tanh": 101, "erf": 701}
KEY_OF_DTYPE = {"bfloat16": 0, "float16": 100, "float32": 200}
WITHOUT_SHORT_ROWS = ("inference",)
"""Families of chips whose tiling does not know SHORT rows."""
REPEAT_BYTES = 512
"""Rows of the tiling SHORT are a multiple of the elements of a repeat."""
SPARE_BYTES = 8
"""Of an element, which the tiling of the 950 counts for a library erf that the kernel does not call."""
BYTES_A_CORE = 32
"""Of workspace, for every core of the chip."""
DATA_BYTES = 72
CUBIC, LINEAR = -0.0713548163, -1.5957691216
"""-2 * sqrt(2 / pi) times 0.044715 and 1."""
MOST_Z = 3.92
NUMERATOR = (0.053443748819, 7.5517016694, 101.62808918, 1393.8061484, 5063.7915060, 29639.384698)
DENOMINATOR = (1.0, 31.212858877, 398.56963806, 3023.1248150, 13243.365831, 26267.224157)
"""Of erf(z) / z in z*z, highest power first, for |z| up to MOST_Z; error of 1.9e-7 in float32."""


COMPLEMENT = np.vectorize(math.erfc, otypes=[float])


@dataclass(frozen=True)
class Form:
    """The variant: how rows are tiled, the form of gelu, and whether the first half is the activated one."""

    tiling: str
    tanh: bool
    left: bool

    @property
    def name(self) -> str:
        """The form of gelu."""
        return "tanh" if self.tanh else "erf"


def variant(call: Call, chip: Chip) -> str | Form:
    """EMPTY without elements; else what the vendor's tiling takes."""
    if 0 in call.dims.values():
        return EMPTY
    row, most = call.dims.get("N", 1) * call.dims.get("Y", 1), buffer_elements(call, chip)
    short = chip.family not in WITHOUT_SHORT_ROWS and row <= most // (REPEAT_BYTES // itemsize(call.dtype))
    return form_of(call, SHORT if short else WHOLE if row <= most else PARTS)


def form_of(call: Call, tiling_of_rows: str) -> Form:
    """The variant of a call, its rows tiled in some way."""
    return Form(tiling_of_rows, call.attributes["approximate"] == 1, bool(call.attributes["activate_left"]))


def buffer_elements(call: Call, chip: Chip) -> int:
    """Elements of the largest tile of which every buffer fits, in whole blocks, as the program tells."""
    form, block = form_of(call, PARTS), BLOCK_BYTES // itemsize(call.dtype)
    (phase,) = call.operator.record(call, chip, form).phases
    spare = SPARE_BYTES if chip.vector.registers and not form.tanh else 0
    taken = phase.bytes("ub").bind({"elements": block}) + spare * block
    return int(chip.memory.ub.visible_bytes // taken * block)


def tiles(call: Call, chip: Chip) -> Mapping[str, int]:
    """Rows of a step, or elements of a part of a row, as the vendor's tiling has them."""
    form, most = variant(call, chip), buffer_elements(call, chip)
    if not isinstance(form, Form):
        return {}
    row, item = call.dims["N"] * call.dims["Y"], itemsize(call.dtype)
    if form.tiling == PARTS:
        return {"elements": max(most, BLOCK_BYTES // item)}
    repeat = REPEAT_BYTES // item
    pitch = -(-row * item // BLOCK_BYTES) * BLOCK_BYTES // item
    return {"rows": most // row // repeat * repeat if form.tiling == SHORT else most // pitch}


def tiling(call: Call, chip: Chip, sizes: Mapping[str, int]) -> VendorTiling:
    """The 10 fields of the vendor's tiling."""
    form = variant(call, chip)
    if not isinstance(form, Form):
        return VendorTiling(None, None, 0, 0)
    rows, row, cores = call.dims["X"], call.dims["N"] * call.dims["Y"], chip.cores.vector
    if form.tiling == PARTS:
        group = -(-row // sizes["elements"])
        loops, tail = rows * group, 0
    else:
        group = sizes["rows"]
        loops, tail = -(-rows // group), rows % group
    used = min(loops, cores)
    each, more = divmod(loops, cores)
    if used < cores:
        each, last = 0, used - (tail > 0)
    elif more:
        last = more - (tail > 0)
    else:
        each, last = each - 1, cores - (tail > 0)
    data = {
        "approximate": int(form.tanh),
        "activateLeft": int(form.left),
        "maxProcCount": buffer_elements(call, chip),
        "valueN": rows,
        "valueM": row,
        "needCoreNum": used,
        "loopNumPerCore": each,
        "tailCoreIndex": last,
        "tailUbLoopNum": tail,
        "groupNum": group,
    }
    key = KEY_OF_FORM[form.name] + KEY_OF_DTYPE[call.dtype] + KEY_OF_TILING[form.tiling]
    return VendorTiling(data, key, used, WORKSPACE_BYTES + BYTES_A_CORE * cores, data_bytes=DATA_BYTES)


def kernel(k: Kernel) -> None:
    """Record the phase.

    SHORT rows are one copy of both halves. The vendor's kernel parts them by transposes of blocks of 32 bytes, and lets
    nothing run meanwhile; here the vector instructions read them where they lie.
    """
    form = k.variant
    if not isinstance(form, Form):
        k.route = EMPTY
        return
    x, dx = k["x"].reshape(X.size, 2 * ROW), k["dx"].reshape(X.size, 2 * ROW)
    dy, gelu = (k[name].reshape(X.size, ROW) for name in ("dy", "gelu"))
    starts = (ROW, ZERO) if form.left else (ZERO, ROW)
    with k.vector("ge_glu_grad") as p:
        if form.tiling == PARTS:
            part = p.tile("elements", multiple_of=BLOCK_BYTES // itemsize(k.dtype))
            for t in p.loop("part", ROW, part, split="cyclic", rows=X.size):
                halves = [(t.row, Range(t.start + start, t.size)) for start in starts]
                tile = Tile(k, p, (t.size,), (part,))
                apart(tile, dy[t.row, t], gelu[t.row, t], [(x[half], dx[half]) for half in halves])
        elif form.tiling == WHOLE:
            rows = p.tile("rows")
            for t in p.loop("row", X.size, rows, split="cyclic"):
                spans = [(t, Range(start, ROW)) for start in starts]
                tile = Tile(k, p, (t.size, ROW), (rows, align(ROW, BLOCK_BYTES // itemsize(k.dtype))))
                apart(tile, dy[t], gelu[t], [(x[span], dx[span]) for span in spans])
        else:
            rows = p.tile("rows")
            for t in p.loop("row", X.size, rows, split="cyclic"):
                together(Tile(k, p, (t.size, ROW), (rows, ROW)), dy[t], gelu[t], x[t], dx[t], starts)


@dataclass(frozen=True)
class Tile:
    """The buffers of a tile: `room` is what one takes, in elements."""

    kernel: Kernel
    phase: Phase
    shape: tuple[Size, ...]
    room: tuple[Size, ...]

    def queue(self, name: str, *, width: int = 1) -> Buffer:
        """A buffer of copies, `width` times as wide as a tile: of two slots on chips with vector registers."""
        k, (*rows, row), (*high, wide) = self.kernel, self.shape, self.room
        slots = 2 if k.registers or (name == "geluIn" and k.dtype == "float32") else 1
        shape = (*rows, width * row if name in ("xIn", "dxOut") else row)
        return self.phase.buffer(name, shape, k.dtype, slots=slots, allocated=(*high, width * wide))

    def plane(self, name: str) -> Buffer:
        """A buffer of float32."""
        return self.phase.buffer(name, self.shape, allocated=self.room)

    def saved(self, gelu: View, dy: View) -> tuple[Value, Value]:
        """gelu and dy; of bfloat16 with the room to be widened in place, but for the form with erf on the 950."""
        k = self.kernel
        in_place = k.dtype == "bfloat16" and (k.variant.tanh or not k.registers)  # type: ignore[attr-defined]
        gelu_in, dy_in = (self.queue(name, width=1 + in_place) for name in ("geluIn", "dyIn"))
        return self.phase.load(gelu, out=gelu_in), self.phase.load(dy, out=dy_in)


def apart(t: Tile, dy: View, gelu: View, halves: Sequence[tuple[View, View]]) -> None:
    """A tile of which the halves of x and dx, (plain, activated), are copies of their own."""
    p, saved = t.phase, t.saved(gelu, dy)
    (plain, plain_out), (active, active_out) = halves
    plain_in, active_in = p.load(plain, out=t.queue("plainIn")), p.load(active, out=t.queue("activeIn"))
    first, planes = t.queue("plainOut"), Planes(t)
    w = left(planes, saved, plain_in, view(first))
    p.store(p.read(first), plain_out)
    second = t.queue("activeOut")
    right(planes, w, active_in, view(second))
    p.store(p.read(second), active_out)


def together(t: Tile, dy: View, gelu: View, x: View, dx: View, starts: tuple[Size, Size]) -> None:
    """A tile of which both halves of x are one copy, and those of dx."""
    p, saved = t.phase, t.saved(gelu, dy)
    plain, active = (Range(start, ROW) for start in starts)
    x_in, dx_out, planes = t.queue("xIn", width=2), t.queue("dxOut", width=2), Planes(t)
    p.load(x, out=x_in)
    w = left(planes, saved, p.read(x_in[:, plain]), dx_out[:, plain])
    right(planes, w, p.read(x_in[:, active]), dx_out[:, active])
    p.store(p.read(dx_out), dx)


class Planes:
    """The work buffers of a tile: `w`, three of the slope, and of 16-bit dtypes the activated half in float32.

    The kernel of the 950 has the last one for float32 too.
    """

    def __init__(self, t: Tile) -> None:
        self.phase, self.dtype = t.phase, t.kernel.dtype
        self.form: Form = t.kernel.variant  # type: ignore[assignment]
        self.w, *self.slope = (t.plane(name) for name in ("w", "a", "b", "c"))
        self.wide = t.plane("v") if t.kernel.dtype != "float32" else None
        if t.kernel.registers and self.wide is None:
            t.phase.buffer("v", t.shape, allocated=t.room, reserved=True)


def left(planes: Planes, saved: tuple[Value, Value], plain: Value, out: View) -> Value:
    """gelu*dy into `out`; return dy*P, in float32 or, of float16, in its own dtype."""
    p, (gelu, dy), (a, b, c) = planes.phase, saved, planes.slope
    if planes.dtype != "bfloat16":
        p.mul(gelu, dy, out=out)
        return p.mul(dy, plain, out=planes.w if planes.dtype == "float32" else plain)
    gelu, dy = p.cast(gelu, out=a), p.cast(dy, out=b)
    p.cast(p.mul(gelu, dy, out=a), out=out)
    return p.mul(dy, p.cast(plain, out=c), out=planes.w)


def right(planes: Planes, w: Value, active: Value, out: View) -> None:
    """w times the slope of gelu at the activated half, into `out`."""
    p = planes.phase
    w = p.cast(w, out=planes.w) if w.dtype != "float32" else w
    v = active if planes.wide is None else p.cast(active, out=planes.wide)
    slope = tanh_slope if planes.form.tanh else erf_slope
    product = slope(planes, v, w, out if planes.wide is None else view(planes.slope[2]))
    if planes.wide is not None:
        p.cast(product, out=out)


def tanh_slope(planes: Planes, v: Value, w: Value, out: View) -> Value:
    """((s - 1)*v*(3*CUBIC*v*v + LINEAR) + 1) * s * w with s = 1 / (1 + exp((CUBIC*v*v + LINEAR)*v))."""
    p, (square, s, rest) = planes.phase, planes.slope
    q = p.mul(v, v, out=square)
    power = p.mul(p.adds(p.muls(q, CUBIC, out=s), LINEAR, out=s), v, out=s)
    one = p.adds(p.exp(power, out=s), 1.0, out=s)
    sigmoid = p.div(p.fill(1.0, out=rest), one, out=s)
    falling = p.mul(p.adds(sigmoid, -1.0, out=rest), v, out=rest)
    rising = p.adds(p.muls(q, 3 * CUBIC, out=square), LINEAR, out=square)
    slope = p.adds(p.mul(falling, rising, out=rest), 1.0, out=rest)
    return p.mul(p.mul(slope, sigmoid, out=rest), w, out=out)


def erf_slope(planes: Planes, v: Value, w: Value, out: View) -> Value:
    """(Phi(v) + v*phi(v)) * w; erf is z*NUMERATOR(z*z) / DENOMINATOR(z*z) of z = v / sqrt(2) up to MOST_Z."""
    p, (a, b, c) = planes.phase, planes.slope
    z = p.maxs(p.mins(p.muls(v, math.sqrt(0.5), out=a), MOST_Z, out=a), -MOST_Z, out=a)
    q = p.mul(z, z, out=b)
    top = p.adds(p.muls(q, NUMERATOR[0], out=c), NUMERATOR[1], out=c)
    for coefficient in NUMERATOR[2:]:
        top = p.adds(p.mul(top, q, out=c), coefficient, out=c)
    top = p.mul(top, z, out=c)
    bottom = p.adds(q, DENOMINATOR[1], out=a)
    for coefficient in DENOMINATOR[2:]:
        bottom = p.adds(p.mul(bottom, q, out=a), coefficient, out=a)
    integral = p.adds(p.muls(p.div(top, bottom, out=c), 0.5, out=c), 0.5, out=c)
    density = p.exp(p.muls(p.mul(v, v, out=a), -0.5, out=a), out=a)
    density = p.muls(density, 1 / math.sqrt(2 * math.pi), out=a)
    return p.mul(p.add(p.mul(density, v, out=a), integral, out=a), w, out=out)


def parts_of(given: Arrays, numbers: Numbers) -> tuple[Array, Array]:
    """The plain and the activated half of x."""
    first, second = np.split(given["x"], 2, axis=int(numbers["dim"]))
    return (second, first) if numbers["activate_left"] else (first, second)


def joined(plain: Array, active: Array, numbers: Numbers) -> Arrays:
    """Both halves of dx."""
    halves = [active, plain] if numbers["activate_left"] else [plain, active]
    return {"dx": np.concatenate(halves, axis=int(numbers["dim"]))}


def reference(given: Arrays, numbers: Numbers) -> Arrays:
    """gelu*dy where the plain half was, dy*P*gelu'(V) where the activated one was."""
    plain, v = parts_of(given, numbers)
    if numbers["approximate"]:
        k, cubic = 2 * math.sqrt(2 / math.pi), 0.044715
        u = k * (v + cubic * v**3)
        with np.errstate(over="ignore", invalid="ignore"):
            slope = logistic(u) * (1 + np.nan_to_num(v * logistic(-u) * k * (1 + 3 * cubic * v * v)))
    else:
        slope = 0.5 * COMPLEMENT(-v / math.sqrt(2)) + v * np.exp(-0.5 * v * v) / math.sqrt(2 * math.pi)
    return joined(given["gelu"] * given["dy"], given["dy"] * plain * slope, numbers)


def magnitude(given: Arrays, numbers: Numbers) -> Arrays:
    """What each half is a multiple of: |gelu*dy| and |dy*P|."""
    plain, _ = parts_of(given, numbers)
    return joined(abs(given["gelu"] * given["dy"]), abs(given["dy"] * plain), numbers)


def tolerance(_: str, k: Kernel) -> Tolerance:
    """The roundings to the dtype and what float32 loses before them; float16 rounds dy*P first, and the slope after."""
    tanh = isinstance(k.variant, Form) and k.variant.tanh
    ulps = {"bfloat16": 0.55, "float16": 1.6}.get(k.dtype, 30.0 if tanh else 2.0)
    return Tolerance("float32 steps between roundings to the dtype", ulps=ulps, share=3e-7)


def approximate_known() -> Rule:
    """The rule that the form of gelu is 0, with erf, or 1, with tanh."""

    def texts(call: Call, _: Chip) -> Texts:
        return Texts("0 (erf) or 1 (tanh)", str(call.attributes["approximate"]))

    return Rule("approximate range", PARAM_INVALID, within(0, dim("approximate"), 1), "approximate", texts)


def tanh_on_inference() -> Rule:
    """The rule of the tiling that the form is the one with tanh on Atlas inference products."""

    def texts(call: Call, chip: Chip) -> Texts:
        return Texts(f"1 (tanh) on {chip.product}", str(call.attributes["approximate"]))

    elsewhere = ~OneOf(FAMILY, ("inference",))
    test = any_of(elsewhere, equal(dim("approximate"), 1), ~HAS_ELEMENTS)
    return Rule("approximate form", TILING_ERROR, test, "approximate", texts, (1, "approximate on 310P"))


def has_elements() -> Rule:
    """The rule of the tiling that x has elements, which it is not asked about without."""

    def texts(call: Call, _: Chip) -> Texts:
        return Texts("at least 1 element", str(math.prod(call.dims.values())))

    return Rule("x elements", None, HAS_ELEMENTS, "x", texts, (4, "empty"))


HAS_ELEMENTS = any_of(unknown("X", "N", "Y"), all_of(*(at_most(1, d.size) for d in (X, N, Y))))
"""The condition that no size is 0, as far as they are known."""

ge_glu_grad_v2 = Operator(
    name="ge_glu_grad_v2",
    api="aclnnGeGluV3Backward",
    other_apis={"aclnnGeGluBackward": ("activateLeft",)},
    about="gradient of the gated unit with gelu",
    dims=(X, N, Y),
    tensors=(
        Argument("dy", "*X N *Y", alias="gradOutput"),
        Argument("x", "*X 2*N *Y", alias="self"),
        Argument("gelu", "*X N *Y"),
        result("dx", "*X 2*N *Y", alias="gradInput"),
    ),
    lead="dy",
    attributes=(
        Attribute("dim", default=-1),
        Attribute("approximate", default=1),
        Attribute("activate_left", default=0, alias="activateLeft", flag=True),
    ),
    split="dim",
    dtypes=DTYPES,
    dtype="float32",
    rules=(
        *not_null("dy", "x", "gelu", "dx"),
        dtype_supported("dy", tiling=(2, "dtype on 310P"), everywhere=True),
        *(dtype_same(name, "dy") for name in ("x", "gelu", "dx")),
        shape("gelu"),
        rank("dy", 1, 8),
        axis_exists("dim", "dy", tiling=(3, "dim")),
        shape("x"),
        shape("dx"),
        approximate_known(),
        tanh_on_inference(),
    ),
    tiling_only_rules=(has_elements(),),
    kernel=kernel,
    reference=reference,
    magnitude=magnitude,
    tolerance=tolerance,
    variant=variant,
    tiles=tiles,
    tiling=tiling,
    kernel_names=("GeGluGradV2",),
)
