"""The tilings of two operators against the golden ones, and against the vendor's rules written a second time, here."""

import math
from dataclasses import dataclass
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import golden
from tilesim.chip.loading import load_chip
from tilesim.errors import Refused
from tilesim.execution.aclnn import get_workspace_size
from tilesim.feasibility.verdict import check
from tilesim.operators.shapes import TensorSpec
from tilesim.planning.plan import plan
from tilesim.program.dtypes import itemsize

CONV, GLU = "masked_causal_conv1d_backward", "glu_backward"
PR = load_chip("ascend950pr")
MIB = 1 << 20


@cache
def sized(cores, ub_bytes):
    # The vendor's rules do not look at global memory.
    sizes = {"memory.ub.size_bytes": ub_bytes, "memory.gm.size_bytes": 2**100}
    return PR.override({"cores.vector": cores, **sizes})


def tiled(made):
    """What a plan says of the vendor's tiling."""
    fields = None if made.tiling_data is None else list(made.tiling_data.items())
    return fields, made.tiling_key, made.block_dim, made.workspace_bytes, made.ub_used_bytes, made.ub_available_bytes


# -------------------------------------------------------------------- golden cases
@pytest.mark.parametrize("case", golden.conv1d_tilings(), ids=lambda case: case.name)
def test_golden_convolutions(case):
    chip = sized(case.cores, case.ub_size_bytes)
    made = plan(CONV, case.dims, chip=chip, dtype=case.dtype, mask=case.mask)
    assert tiled(made) == (
        list(case.tiling.items()),
        case.tiling_key,
        case.block_dim,
        16 * MIB,
        case.ub_used_bytes,
        case.ub_available_bytes,
    )
    assert (made.ok, made.verdict.verdict == "overflow", bool(made.note)) == (case.fits, not case.fits, not case.fits)
    assert made.status.code == 0


@pytest.mark.parametrize("case", golden.glu_tilings(), ids=lambda case: case.name)
def test_golden_gated_units(case):
    chip = sized(case.cores, case.ub_size_bytes)
    made = plan(GLU, {"self": TensorSpec(case.shape, case.dtype), "dim": case.dim}, chip=chip)
    assert tiled(made) == (
        list(case.tiling.items()),
        case.tiling_key,
        case.block_dim,
        case.workspace_bytes,
        case.ub_used_bytes,
        case.ub_available_bytes,
    )
    assert (made.ok, made.status.code, made.kernel.variant) == (case.fits, 0, case.mode)


# -------------------------------------------------------------------- the convolution's rules, written again
@dataclass(frozen=True)
class Conv:
    """The sizes of a convolution on a device."""

    S: int
    B: int
    H: int
    mask: bool
    dtype: str
    cores: int
    ub_bytes: int


def up(value, unit):
    return -(-value // unit) * unit


def conv_bytes(case, rows):
    """Bytes that the buffers take with so many output rows."""
    levels = (-(-case.S // rows)).bit_length()
    row, halo = 64 * 2, 2
    twice = row * (rows + halo) + row * rows + 3 * row + row * rows + 3 * row
    once = 64 * 4 * (3 * case.B + 3 * rows + 3 * levels + 1)
    if case.mask:
        twice += up(rows + halo, 32)
        once += up((rows + halo) * 2, 32) + (rows + halo) * row
    return 2 * twice + once


def conv_rows(case):
    """The most rows that fit, found as the vendor finds them: 1 where none do."""
    low, high, best = 1, max(1, case.S), 1
    while low <= high:
        middle = (low + high) // 2
        if conv_bytes(case, middle) <= case.ub_bytes - 8192:
            best, low = middle, middle + 1
        else:
            high = middle - 1
    return best


def conv_tiling(case):
    """(fields, bytes used, blocks) of a convolution that passes every check."""
    tiles = case.H // 64
    used = min(tiles, case.cores)
    each, more = divmod(tiles, used)
    main, tail, main_tiles = (more, used - more, each + 1) if more else (used, 0, each)
    loops = -(-case.S // conv_rows(case))
    floor, rest = divmod(case.S, loops)
    rows = floor + 1 if rest else floor
    fields = {
        "hMainCoreCnt": main,
        "hTailCoreCnt": tail,
        "hMainSize": 64 * main_tiles,
        "hTailSize": 64 * each,
        "hLoopCnt": main_tiles,
        "sLoopCnt": loops,
        "ubMainFactorH": 64,
        "ubTailFactorH": 64,
        "ubMainFactorS": rows,
        "ubTailFactorS": floor,
        "ubMainFactorSCount": rest,
        "ubTailFactorSCount": loops - rest,
        "tailHLoopCnt": each if tail else main_tiles,
        "tailSLoopCnt": loops,
        "tailCoreUbMainFactorH": 64,
        "tailCoreUbTailFactorH": 64,
        "tailCoreUbMainFactorS": rows,
        "tailCoreUbTailFactorS": floor,
        "hasMask": int(case.mask),
        "S": case.S,
        "B": case.B,
        "H": case.H,
        "W": 3,
    }
    return fields, conv_bytes(case, rows), used


@st.composite
def convolutions(draw):
    batch = draw(st.integers(1, 32))
    most = 524288 // batch
    near = st.integers(0, 40).map(lambda less: max(1, most - less))
    tokens = draw(st.one_of(st.integers(1, 400), st.integers(1, most), near).map(lambda s: min(s, most)))
    ub = st.one_of(
        st.sampled_from([8193, 8200, 12000, 16384, 24000, 33333, 65536, 131072, 196352, 196608, 253952, 261888]),
        st.integers(8193, 270000),
    )
    return Conv(
        tokens,
        batch,
        64 * draw(st.integers(6, 384)),
        draw(st.booleans()),
        draw(st.sampled_from(["bfloat16", "float16"])),
        draw(st.integers(1, 64)),
        draw(ub),
    )


@settings(max_examples=400)
@given(convolutions())
def test_convolutions_against_the_rules(case):
    fields, used, blocks = conv_tiling(case)
    dims = {"S": case.S, "B": case.B, "H": case.H}
    made = plan(CONV, dims, chip=sized(case.cores, case.ub_bytes), dtype=case.dtype, mask=case.mask)
    left = case.ub_bytes - 8192
    key = {"bfloat16": 10000, "float16": 10001}[case.dtype]
    assert tiled(made) == (list(fields.items()), key, blocks, 16 * MIB, used, left)
    assert (made.ok, bool(made.note)) == (conv_bytes(case, conv_rows(case)) <= left, used > left)


# -------------------------------------------------------------------- the gated unit's rules, written again
@dataclass(frozen=True)
class Unit:
    """The sizes of a gated unit on a device."""

    shape: tuple[int, ...]
    dim: int
    dtype: str
    cores: int
    ub_bytes: int


KEYS = {"float32": 0, "float16": 1, "bfloat16": 27}


def glu_buffer(dtype, ub_bytes):
    elements = (ub_bytes - 8192) // ((10 if dtype == "float32" else 14) * 4)
    return elements if dtype == "float32" else 2 * elements


def glu_tiling(case):  # noqa: PLR0911 - one a check
    """(fields, key, blocks, bytes used) of a gated unit, or the name of the check that fails."""
    rank = len(case.shape)
    if case.ub_bytes <= 8192:
        return "ub"
    if case.dtype not in KEYS:
        return "dtype"
    if not -rank <= case.dim < rank:
        return "dim-range"
    axis = case.dim % rank
    if case.shape[axis] % 2:
        return "odd-split"
    rows, ny = math.prod(case.shape[:axis]), case.shape[axis] // 2 * math.prod(case.shape[axis + 1 :])
    if not rows * ny:
        return "empty"
    buffer = glu_buffer(case.dtype, case.ub_bytes)
    size = itemsize(case.dtype)
    block = 32 // size
    fields = dict.fromkeys(("group", "loopNum", "tailLoopNum", "nLastTailGroup", "lastTailGroup"), 0)
    if ny <= buffer:
        pitch = up(ny, block)
        if pitch > buffer:
            return "group"
        group, each = buffer // pitch, -(-rows // case.cores)
        blocks = -(-rows // each)
        fields |= {"group": group, "loopNum": each // group, "nLastTailGroup": each % group}
        if each * blocks != rows:
            last = rows - each * (blocks - 1)
            fields |= {"tailLoopNum": last // group, "lastTailGroup": last % group}
        queue = up(group * pitch * size, 32)
    elif not buffer:
        return "group"
    else:
        blocks, each = case.cores, 0
        fields |= {"group": ny // buffer, "loopNum": rows * -(-ny // buffer), "tailLoopNum": ny % buffer}
        queue = up(buffer * size, 32)
    fields |= {"splitSize": min(ny, buffer), "realCoreNum": blocks, "numPerCore": each, "blockSize": block, "ny": ny}
    return fields, KEYS[case.dtype] + 256 * (ny > buffer), blocks, 10 * queue


@st.composite
def units(draw):
    """Gated units of every rank, many with rows near a multiple of the buffer, and some that are refused."""
    dtype = draw(
        st.sampled_from(["float32", "float16", "bfloat16", "float32", "float16", "bfloat16", "float64", "int8"])
    )
    ub_bytes = draw(
        st.one_of(
            st.sampled_from([8191, 8192, 8193, 8200, 8248, 16384, 196352, 196608, 253952]), st.integers(8000, 3 * 10**5)
        )
    )
    edge = max(glu_buffer(dtype if dtype in KEYS else "float32", ub_bytes), 0)
    ny = st.one_of(
        st.integers(1, 40),
        st.integers(-20, 20).map(lambda more: edge + more),
        st.tuples(st.integers(1, 12), st.integers(-2, 2)).map(lambda t: edge * t[0] + t[1]),
        st.integers(0, 10**6),
    )
    n = max(0, draw(ny))
    after = draw(st.lists(st.integers(1, 9), max_size=7))
    if draw(st.booleans()):
        n = n // max(math.prod(after), 1)
    large = st.sampled_from([1, 2, 3, 7, 63, 64, 65, 4096, 10**6, 2**31])
    before = draw(st.lists(st.one_of(st.integers(0, 70), large), max_size=max(0, 7 - len(after))))
    while math.prod(before) * max(n, 1) * math.prod(after) > 2**60:
        before.pop()
    shape = (*before, 2 * n + draw(st.sampled_from([0, 0, 0, 0, 0, 1])), *after)
    dim = len(before) - draw(st.sampled_from([0, len(shape)]))
    if draw(st.integers(0, 20)) == 0:
        dim = draw(st.sampled_from([-9, -len(shape) - 1, len(shape), 9]))
    return Unit(shape, dim, dtype, draw(st.integers(1, 64)), ub_bytes)


def accepted(case):
    """Whether every tensor passes the first call, which asks the tiling only for what it launches."""
    rank = len(case.shape)
    known = case.dtype in (*KEYS, "float64")
    return known and -rank <= case.dim < rank and case.shape[case.dim] % 2 == 0


@settings(max_examples=600)
@given(units())
def test_gated_units_against_the_rules(case):
    expected = glu_tiling(case)
    refused = isinstance(expected, str)
    chip, own = sized(case.cores, case.ub_bytes), {"self": TensorSpec(case.shape, case.dtype), "dim": case.dim}
    verdict = check(GLU, own, chip=chip)
    assert verdict.tiling_check == (expected if refused else "")
    asked = 0 not in case.shape and case.dtype != "float64"
    code = 161002 if not accepted(case) else 561002 if refused and asked else 0
    assert verdict.status.code == code
    assert ("divide by zero" in verdict.culprit) == (code == 561002 and expected == "group")
    if code:
        with pytest.raises(Refused) as caught:
            plan(GLU, own, chip=chip)
        assert caught.value.verdict.status.code == code
        return
    made = plan(GLU, own, chip=chip)
    assert (made.ok, made.status.code, bool(made.note)) == (True, 0, refused)
    if refused:
        assert made.route == ("empty" if 0 in case.shape else "composite")
        assert (made.tiling_data, made.tiling_key) == (None, None)
        assert (made.block_dim == 0) == (made.workspace_bytes == 0) == (0 in case.shape)
        return
    fields, key, blocks, used = expected
    order = "group loopNum tailLoopNum nLastTailGroup lastTailGroup splitSize realCoreNum numPerCore blockSize ny"
    assert tiled(made) == ([(n, fields[n]) for n in order.split()], key, blocks, 0, used, case.ub_bytes - 8192)
    assert made.route == "kernel"


# -------------------------------------------------------------------- the order of checks, written again
def conv_checks(t, ub_bytes):
    """(check, parameter) that the convolution's tiling fails first, None if it fails none."""
    grad_y, x, weight, mask = (t[name] for name in ("gradY", "x", "weight", "mask"))
    if len(grad_y.shape) != 3:
        return "rank", "gradY"
    s, b, h = grad_y.shape
    checks = [
        (1 <= b <= 32, "batch", "gradY"),
        (s * b <= 524288, "batch-times-seq", "gradY"),
        (384 <= h <= 24576, "hidden-range", "gradY"),
        (h % 64 == 0, "hidden-multiple", "gradY"),
        (len(x.shape) == 3, "rank", "x"),
        (x.shape == grad_y.shape, "shape", "x"),
        (len(weight.shape) == 2, "rank", "weight"),
        (len(weight.shape) != 2 or weight.shape[0] == 3, "width", "weight"),
        (len(weight.shape) != 2 or weight.shape[1] == h, "columns", "weight"),
    ]
    if mask:
        checks += [
            (len(mask.shape) == 2, "rank", "mask"),
            (len(mask.shape) != 2 or mask.shape[0] == b, "rows", "mask"),
            (len(mask.shape) != 2 or mask.shape[1] == s, "columns", "mask"),
        ]
    checks += [
        (grad_y.dtype in ("float16", "bfloat16"), "dtype", "gradY"),
        (x.dtype == grad_y.dtype, "dtype", "x"),
        (weight.dtype == grad_y.dtype, "dtype", "weight"),
        (not mask or mask.dtype == "bool", "dtype", "mask"),
        (ub_bytes > 8192, "ub", "platform"),
        (s > 0, "empty", "gradY"),
    ]
    return next(((name, parameter) for ok, name, parameter in checks if not ok), None)


@st.composite
def broken_convolutions(draw):
    """Tensors of a convolution, of which up to three are wrong in shape, dtype or presence."""
    some = st.sampled_from
    s, b, h = (
        draw(some([0, 1, 7, 64, 16384, 524289])),
        draw(some([0, 1, 4, 32, 33])),
        draw(some([64, 384, 400, 768, 24640])),
    )
    kind = draw(some(["bfloat16", "float16", "float16", "float32"]))
    shapes = {
        "gradY": (s, b, h),
        "x": (s, b, h),
        "weight": (3, h),
        "mask": (b, s),
        "gradX": (s, b, h),
        "gradWeight": (3, h),
    }
    tensors = {name: TensorSpec(shape, "bool" if name == "mask" else kind) for name, shape in shapes.items()}
    for name in draw(st.lists(some(list(tensors)), max_size=3, unique=True)):
        shape, dtype = shapes[name], tensors[name].dtype
        wrong = [shape[::-1], shape[1:], (*shape, 1), (*shape[:-1], shape[-1] + 64), (shape[0] + 1, *shape[1:])]
        change = draw(some(["shape", "dtype", "null"]))
        if change == "null":
            tensors[name] = None
        elif change == "shape":
            tensors[name] = TensorSpec(draw(some(wrong)), dtype)
        else:
            tensors[name] = TensorSpec(shape, draw(some(["bfloat16", "float16", "int32", "uint8", "bool"])))
    return tensors, draw(some([253952, 253952, 253952, 8192, 8193]))


@settings(max_examples=250)
@given(broken_convolutions())
def test_the_order_of_the_convolutions_checks(case):
    tensors, ub_bytes = case
    alias = {"mask": "maskOptional", "gradX": "gradXOut", "gradWeight": "gradWeightOut"}
    status, _, executor = get_workspace_size(
        "aclnnMaskedCausalConv1dBackward",
        **{alias.get(name, name): value for name, value in tensors.items()},
        chip=sized(64, ub_bytes),
    )
    required = [value for name, value in tensors.items() if name != "mask"]
    if None in required:
        assert (status.code, executor) == (161001, None)
        return
    kind, mask = tensors["gradY"].dtype, tensors["mask"]
    right = kind in ("float16", "bfloat16") and all(t.dtype == kind for t in required)
    first = conv_checks(tensors, ub_bytes)
    if not right or (mask and mask.dtype != "bool"):
        assert status.code == 161002
    else:
        assert status.code == (561002 if first else 0)
    found = status.verdict.tiling_check, status.verdict.tiling_parameter
    assert found == (first or ("", ""))
    assert (executor is None) == bool(status.code)


def glu_status(grad_out, own, out, dim, dtypes):
    """The code that the first call of the gated unit returns, but for what its tiling does."""
    if None in (grad_out, own, out):
        return 161001
    rank = len(own.shape)
    wrong = own.dtype not in dtypes or grad_out.dtype != own.dtype or out.dtype != own.dtype
    wrong = wrong or max(rank, len(out.shape), len(grad_out.shape)) > 8 or rank < 1 or not -rank <= dim < rank
    if wrong or own.shape[dim] % 2:
        return 161002
    half = list(own.shape)
    half[dim] //= 2
    return 0 if grad_out.shape == tuple(half) and out.shape == own.shape else 161002


@st.composite
def broken_units(draw):
    """Tensors of a gated unit, of which up to two are wrong."""
    some = st.sampled_from
    shape = draw(st.lists(some([0, 1, 2, 2, 4, 4, 6]), min_size=1, max_size=9).map(tuple))
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    kind = draw(some(["float32", "float16", "bfloat16", "float64", "int64"]))
    half = list(shape)
    half[dim] //= 2
    tensors = {"gradOut": TensorSpec(half, kind), "self": TensorSpec(shape, kind), "out": TensorSpec(shape, kind)}
    for name in draw(st.lists(some(list(tensors)), max_size=2, unique=True)):
        own = tensors[name].shape
        others = [None, TensorSpec((), kind), TensorSpec((*own, 2), kind), TensorSpec(own[::-1], kind)]
        tensors[name] = draw(some([*others, TensorSpec(own, "float32"), TensorSpec(own, "int64")]))
    return tensors, draw(some([dim, dim, dim, -10, 9, len(shape)]))


@settings(max_examples=250)
@given(broken_units(), st.sampled_from(["ascend950pr", "ascend910b1", "ascend910_9391", "ascend310p3", "ascend910a"]))
def test_the_order_of_the_gated_units_checks(case, name):
    tensors, dim = case
    chip = load_chip(name)
    new = chip.family in ("950", "a2", "a3")
    dtypes = ("float32", "float16", "float64", *(("bfloat16",) if new else ()))
    status, size, executor = get_workspace_size("aclnnGluBackward", **tensors, dim=dim, chip=chip)
    assert status.code == glu_status(tensors["gradOut"], tensors["self"], tensors["out"], dim, dtypes)
    if status.code:
        assert executor is None
        return
    own = tensors["self"]
    kernel = chip.family == "950" and own.dtype != "float64"
    assert executor.plan.route == ("empty" if 0 in own.shape else "kernel" if kernel else "composite")
    assert (size == 0) == (kernel or 0 in own.shape)
