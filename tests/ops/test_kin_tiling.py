"""The tilings of gated units, rms_norm and the convolution against golden ones, and against the rules written again."""

import itertools
import math
import random
from functools import cache

import numpy as np
import pytest

from tests import golden
from tests.trials import trials
from tilesim.chip.loading import load_chip
from tilesim.execution.aclnn import get_workspace_size, parameters_of
from tilesim.feasibility.verdict import check
from tilesim.operators.binding import bind, in_words
from tilesim.operators.shapes import TensorSpec
from tilesim.ops import load_operator
from tilesim.planning.plan import plan
from tilesim.program.dtypes import itemsize

SWI, SWI_GRAD, GE_GRAD, NORM, CONV = "swi_glu", "swi_glu_grad", "ge_glu_grad_v2", "rms_norm", "masked_causal_conv1d"
LEADS = {SWI: "x", SWI_GRAD: "x", GE_GRAD: "dy", NORM: "x", CONV: "x"}
CHIPS = {"950": "ascend950pr", "a2": "ascend910b1", "a3": "ascend910_9391", "inference": "ascend310p3"}
FAMILIES = {SWI: tuple(CHIPS), SWI_GRAD: tuple(CHIPS), GE_GRAD: tuple(CHIPS), NORM: ("950", "a2", "a3"), CONV: ("950",)}
SYSTEM = 16 << 20
ACCEPTED_EMPTY = {(GE_GRAD, "empty"), (NORM, "x empty")}
"""What the tiling refuses and the first call answers before it asks."""


@cache
def sized(family, cores, ub_bytes):
    sizes = {"cores.vector": cores, "memory.ub.size_bytes": ub_bytes, "memory.ub.reserved_bytes": 0}
    return load_chip(CHIPS[family]).override(sizes)


def tiled(one):
    return list(one.tiling_data.items()), one.tiling_key, one.block_dim, one.workspace_bytes


# -------------------------------------------------------------------- golden cases
@pytest.mark.parametrize("operator", LEADS)
def test_golden_cases(operator):
    cases = golden.kin_tilings(operator)
    assert len(cases) > 20
    for case in cases:
        given = {LEADS[operator]: TensorSpec(case.shape, case.dtype), **case.options}
        chip = sized(case.family, case.cores, case.ub_bytes)
        if case.check:
            verdict = check(operator, given, chip=chip)
            assert verdict.tiling_check == case.check, case.name
            dtype_or_dim = "dtype" in case.check or (operator == GE_GRAD and case.check == "dim")
            empty = (operator, case.check) in ACCEPTED_EMPTY
            bfloat = case.dtype == "bfloat16" and case.family == "inference"
            assert verdict.status.code == (0 if empty else 161002 if dtype_or_dim or bfloat else 561002), case.name
            continue
        one = plan(operator, given, chip=chip)
        expected = list(case.tiling.items()), case.tiling_key, case.block_dim, case.workspace_bytes
        assert tiled(one) == expected, case.name
        assert max((phase.cores for phase in one.phases), default=case.block_dim) == case.block_dim, case.name
        if case.variant:
            assert one.kernel.variant == case.variant, case.name


# -------------------------------------------------------------------- the rules of gated units, written again
def up(value, unit):
    return -(-value // unit) * unit


def strips(rows, row, item, ub_bytes, cores, queues, planes):
    """(slots - 1, rows, columns, blocks) of the tiling of gated units, found by trying every width."""
    block, line = 32 // item, 512 // item

    def search(slots):
        elements = ub_bytes // (slots * queues * item + planes * 4) // block * block
        whole = row % block == 0

        def apart(width):
            return 2 * row - width > 65535 * block if whole else (2 * row - width) * item > 65535

        width = min(row, elements, 65535 if whole else 65535 // item)
        if width < row and width > line:
            width = width // line * line
        kept = [(1, width)] if apart(width) else []
        while not kept or not apart(kept[0][1]):
            high = min(elements // up(width, block), rows, 4095)
            if high < 1 or (high > 1 and apart(width)):
                break
            if high == 1 or not apart(row % width):
                kept.append((high, width))
            if width <= line or high == min(rows, 4095):
                break
            width = width - line if width % line == 0 else width // line * line
        best = None
        for high, width in kept:
            tiles = math.ceil(rows / high) * math.ceil(row / width)
            score = (min(tiles, cores), -tiles, high * width, (rows // high) * (row // width))
            if best is None or score > best[0]:
                best = score, high, width, tiles
        return best

    two = search(2)
    if two is None:
        return None
    if math.ceil(two[3] / two[0][0]) == 2:
        one = search(1)
        if one and math.ceil(one[3] / one[0][0]) == 1 and one[0][0] >= two[0][0]:
            return 0, one[1], one[2], one[0][0]
    return 1, two[1], two[2], two[0][0]


UNSET = "activateLeft biasIsEmpty quantScaleIsEmpty activateScaleIsEmpty swiColLen perRowLen modRowLen usedCoreNum"


def strip_fields(rows, row, item, found):
    double, high, width, _ = found
    named = {"is32BAligned": int(row * item % 32 == 0), "isDoubleBuffer": double, "rowLen": rows, "colLen": row}
    return named | {"baseRowLen": high, "baseColLen": width} | dict.fromkeys(UNSET.split(), 0)


def grid_of_950(rows, row, item, cores):
    """(parts of the rows, parts of a row) of swi_glu_grad on the 950."""
    unit = 512 // item
    units = math.ceil(row / unit)
    wanted = max(min(cores, rows * units * unit // 8192 % 2**32), 1)
    best = None
    few = range(1, math.ceil(math.sqrt(wanted) + 1))
    for m in sorted({*few, *(wanted // part for part in few)}):
        n = max(1, wanted // m)
        if m > rows or n > units or (row * item < 1024 and n > 1):
            continue
        high, wide = math.ceil(rows / m), math.ceil(units / n)
        apart = high * wide
        if m * n == wanted:
            if rows % m == units % n == 0:
                return m, n
            if rows % m == 0:
                apart -= high * (units % wide)
            else:
                apart -= (rows % high) * (n if units % n == 0 else units % wide)
        if best is None or (apart, n) < best[:2]:
            best = apart, n, m
    return best[2], best[1]


def swi_grad_950(rows, row, dtype, cores, ub_bytes):
    item = itemsize(dtype)
    m, n = grid_of_950(rows, row, item, cores)
    numbers = (
        rows,
        row,
        rows // m,
        row // n,
        rows - rows // m * (m - 1),
        row - row // n * (n - 1),
        ub_bytes,
        m,
        n,
        m * n,
    )
    names = [
        "rowTotal",
        "colTotal",
        "rowBase",
        "colBase",
        "rowTail",
        "colTail",
        "ubSize",
        "rowTileNum",
        "colTileNum",
        "usedCoreNum",
    ]
    key = 1000000 + {"float16": 0, "float32": 10, "bfloat16": 20}[dtype] + (row * item >= 1024)
    return dict(zip(names, numbers, strict=True)), key, m * n, SYSTEM + 32 * m * n


BUDGETS = {"bfloat16": (18, 26, 26), "float16": (16, 22, 26), "float32": (11, 17, 19)}


def ge_grad(rows, row, dtype, family, cores, ub_bytes, tanh, left):
    item = itemsize(dtype)
    part = BUDGETS[dtype][0 if family != "950" else 1 if tanh else 2]
    most, repeat = ub_bytes // part // 32 * 32 // item, 512 // item
    if family != "inference" and row <= most // repeat:
        kind, group = 2, most // row // repeat * repeat
    elif row <= most:
        kind, group = 0, most // up(row, 32 // item)
    else:
        kind, group = 1, math.ceil(row / most)
    loops, tail = (rows * group, 0) if kind == 1 else (math.ceil(rows / group), rows % group)
    need = min(loops, cores)
    per, last = 0, need - 1 if tail else need
    if need == cores:
        per, more = divmod(loops, cores)
        per, last = (per, more) if more else (per - 1, cores)
        last -= tail > 0
    names = "approximate activateLeft maxProcCount valueN valueM needCoreNum loopNumPerCore tailCoreIndex tailUbLoopNum"
    numbers = (int(tanh), int(left), most, rows, row, need, per, last, tail)
    key = (101 if tanh else 701) + {"bfloat16": 0, "float16": 100, "float32": 200}[dtype] + kind
    fields = dict(zip(names.split(), numbers, strict=True)) | {"groupNum": group}
    return fields, key, need, SYSTEM + 32 * cores


UB = {"950": (253952, 245760, 262144), "a2": (196352, 196608), "a3": (196352, 196608), "inference": (262144, 196608)}
DTYPES = ("float32", "float16", "bfloat16")


def devices(choose, operator):
    family = choose.choice(FAMILIES[operator])
    return (
        family,
        choose.choice((1, 7, 8, 20, 36, 40, 48, 64)),
        choose.choice((*UB[family], choose.randint(40000, 262144))),
    )


def axes(choose, most=60000):
    """Sizes before, on and after an axis that is split, near where tilings change their minds."""
    edges = (1, 16, 128, 255, 256, 257, 512, 2000, 2001, 4096, 6912, 9808, 12288, 16384, 32767, 32768, 65536)
    row = max(1, choose.choice((choose.choice(edges) + choose.randint(-2, 2), choose.randint(1, most))))
    rows = choose.choice((1, 2, choose.randint(1, 100), choose.randint(1, 5000), choose.randint(1, 2**20)))
    after = choose.choice((1, 1, 1, 2, 3, 16))
    return rows, max(row // after, 1), after


@pytest.mark.parametrize("operator", [SWI, SWI_GRAD, GE_GRAD])
def test_gated_units_against_the_rules(operator):
    choose = random.Random(7)
    for _ in range(trials(250)):
        (family, cores, ub_bytes), (rows, half, after) = devices(choose, operator), axes(choose)
        dtype = choose.choice(DTYPES[: 2 if family == "inference" else 3])
        item, row, chip = itemsize(dtype), half * after, sized(family, cores, ub_bytes)
        shape = (rows, half, after)
        if operator == GE_GRAD:
            tanh, left = family == "inference" or choose.random() < 0.5, choose.random() < 0.5
            given = {"dy": TensorSpec(shape, dtype), "dim": 1, "approximate": int(tanh), "activate_left": left}
            expected = ge_grad(rows, row, dtype, family, cores, ub_bytes, tanh, left)
        else:
            given = {"x": TensorSpec((rows, 2 * half, after), dtype), "dim": 1}
            if family == "inference" and row * item % 64:
                assert check(operator, given, chip=chip).status.code == 561002
                continue
            if operator == SWI_GRAD and family == "950":
                expected = swi_grad_950(rows, row, dtype, cores, ub_bytes)
            else:
                queues, planes = (3, 1 + (item == 2)) if operator == SWI else (5, 2 + 3 * (item == 2))
                found = strips(rows, row, item, ub_bytes, cores, queues, planes)
                key = {"float32": 0, "float16": 1, "bfloat16": 27}[dtype]
                expected = strip_fields(rows, row, item, found), key, found[3], SYSTEM
        one = plan(operator, given, chip=chip)
        assert tiled(one) == (list(expected[0].items()), *expected[1:]), (shape, dtype, family, cores, ub_bytes)
        assert max(phase.cores for phase in one.phases) == expected[2]
        assert one.ub_used_bytes <= ub_bytes


@pytest.mark.parametrize("family", ["950", "a2"])
def test_an_odd_axis_is_taken_with_those_after_it(family):
    """The tiling asks for an even product alone. The results hold what is written; the gradient of 950 refuses it."""
    one = plan(SWI, {"x": TensorSpec((4, 33, 2), "float16"), "dim": 1}, chip=CHIPS[family])
    assert (one.tiling_data["colLen"], one.call.spec("y").shape) == (33, (4, 33))
    gradient = check(SWI_GRAD, {"x": TensorSpec((4, 33, 2), "float16"), "dim": 1}, chip=CHIPS[family])
    assert gradient.status.code == (561002 if family == "950" else 0)


def test_an_empty_unit_is_launched_on_950_alone():
    one = plan(SWI, {"x": (0, 8)}, chip="ascend950pr")
    assert tiled(one) == ([], 100, one.chip.cores.vector, 0)
    assert check(SWI, {"x": (0, 8)}, chip="ascend910b1").status.code == 561002


# -------------------------------------------------------------------- the rules of rms_norm, written again
def norm(rows, columns, dtype, mixed, family, cores, ub_bytes, short):
    """(fields, key, blocks) of a norm; `short` says whether the shape is one that may take the quick form."""
    item, room, per = itemsize(dtype), ub_bytes - 1024, math.ceil(rows / cores)
    gamma, blocks = 4 if mixed else item, math.ceil(rows / per)
    wide, last = up(columns, 32 // item), rows - per * (blocks - 1)
    eps, average = float(np.float32(1e-6)), float(np.float32(1) / np.float32(columns))
    head = {"num_row": rows, "num_col": columns}
    if family == "950":
        fold = 2 ** int(math.log2(wide - 1))
        sums = up(math.ceil(fold / 64), 32)
        many = (room - 2048 - wide * gamma) // (4 * wide * item + 12 + sums)
        if many >= 1 and wide <= 16384:
            more = {"num_col_align": wide, "block_factor": per, "col_flod_factor": fold, "ub_factor": min(many, per)}
            return head | more | {"epsilon": eps, "avg_factor": average, "last_block_factor": last}, 5000, blocks
        widest, unit = max(item, gamma), 1
        wide = up(columns * widest, 512) // widest
        while 8 * unit * item + 4 * unit * gamma + 512 + 8 * unit + 5120 < room:
            unit *= 2
        loops = 1
        while 2 * loops * unit <= columns:
            loops *= 2
        taken = 4 * wide * item + 2 * wide * gamma + 3584 + 4 * wide * (item == 2)
        more = {"num_col_align": wide, "block_factor": per, "last_block_factor": 0, "row_factor": 64, "ub_factor": unit}
        more |= {"epsilon": eps, "ub_loop": loops, "col_buffer_length": unit}
        return head | more | {"multi_n_num": room // taken, "is_nddma": int(columns < 512)}, 2001, blocks
    most = 12288 if item == 2 else 10240
    many = 64
    if wide <= 2000:
        key, many = 2, room // (16 * wide + (288 if mixed else 260))
        factor = many * wide
    elif (16 * wide + 512 < room) if mixed else wide <= most:
        key, factor = 0, wide if mixed else most
    elif mixed and 14 * wide + 512 < room:
        key, factor = 3, wide
    elif mixed:
        key, factor = 1, (room - 2560) // 16 // 16 * 16
    else:
        key, factor = 1, math.ceil(columns / (16 * math.ceil(columns / most))) * 16
        while 1 <= columns % factor <= 15:
            factor -= 16
    loops, last_loops = math.ceil(per / many), math.ceil(last / many)
    more = {"num_col_align": wide, "block_factor": per, "row_factor": many, "ub_factor": factor}
    unset = "reduce_mask left_num last_reduce_mask last_left_num rstd_size ub_loop col_buffer_length multi_n_num"
    more |= dict.fromkeys(unset.split(), 0) | {"is_nddma": 1, "epsilon": eps, "avg_factor": average, "is_gemma": 0}
    more |= {"last_block_factor": last, "row_loop": loops, "last_block_row_loop": last_loops}
    more |= {"row_tail": per - (loops - 1) * many, "last_block_row_tail": last - (last_loops - 1) * many}
    quick = int(short and not mixed and item == 2 and columns <= 5120)
    more |= {"mul_loop": wide // 64, "mul_tail": wide % 64, "dst_rep_stride": wide // 8 % 256, "is_performance": quick}
    return head | more | {"normal_flag": 0}, key, blocks


def test_norms_against_the_rules():
    choose = random.Random(8)
    for _ in range(trials(250)):
        family, cores, ub_bytes = devices(choose, NORM)
        ub_bytes = max(ub_bytes, 190000)  # the buffers of one row have a fixed size
        rows, columns, _ = axes(choose)
        dtype, mixed = choose.choice(DTYPES), choose.random() < 0.3
        mixed = mixed and dtype != "float32"
        middle = choose.choice(((), (3,), (9,), (2, 2)))
        shape, width = (rows, *middle, columns), choose.choice((1, 1, 2)) if len(middle) == 1 else 1
        gamma = TensorSpec(shape[-width:], "float32" if mixed else dtype)
        short = width == 1 and ((not middle and rows <= 512) or (len(middle) == 1 and rows <= 512 and middle[0] <= 8))
        size = math.prod(shape[-width:])
        fields, key, blocks = norm(math.prod(shape) // size, size, dtype, mixed, family, cores, ub_bytes, short)
        chip = sized(family, cores, ub_bytes)
        one = plan(NORM, {"x": TensorSpec(shape, dtype), "gamma": gamma}, chip=chip)
        assert tiled(one) == (list(fields.items()), key, blocks, SYSTEM + 256), (shape, gamma, family, cores, ub_bytes)
        assert one.ub_used_bytes <= ub_bytes


# -------------------------------------------------------------------- the rules of the convolution, written again
def conv(s, b, h, cores, ub_bytes, *, mask):
    """(fields, blocks, bytes of the buffers), or None where one token does not fit."""
    best, grid = 0, None
    for hc in range(min(h // 64, cores), 0, -1):
        for bc in range(min(b, cores // hc), 0, -1):
            sc = min(s, cores // hc // bc)
            if hc * bc * sc > best and best < cores:
                best, grid = hc * bc * sc, {"H": hc, "B": bc, "S": sc}

    def taken(width, batches, tokens):
        high = up(tokens, 32)
        return 4 * batches * (tokens + 2) * width + 12 * width + 4 * batches * high + 4 * max(batches, width) * high

    room, share = ub_bytes - 8192, {}
    for name, size, unit in (("H", h // 64, 64), ("B", b, 1), ("S", s, 1)):
        floor, more = divmod(size, grid[name])
        share[name] = (floor + (more > 0)) * unit, floor * unit, more
    batches, tokens, width = share["B"][0], share["S"][0], 64
    if taken(64, batches, tokens) <= room:
        while width + 64 <= min(share["H"][:2]) and taken(width + 64, batches, tokens) <= room:
            width += 64
    else:
        batches = next((n for n in range(batches, 0, -1) if taken(64, n, tokens) <= room), 1)
        if taken(64, batches, tokens) > room:
            start = min(tokens, max((room - 768) // 256, 1))
            tokens = next((n for n in range(start, 0, -1) if taken(64, 1, n) <= room), 0)
    if not tokens:
        return None
    factor = {"H": width, "B": batches, "S": tokens}
    data = {"S": s, "B": b, "H": h}
    for name, (main, tail, more) in share.items():
        words = ("CoreCnt", "MainCnt", "BlockFactor", "BlockTailFactor")
        data |= {name.lower() + w: v for w, v in zip(words, (grid[name], more, main, tail), strict=True)}
    data |= {f"ubFactor{name}": size for name, size in factor.items()}
    for i, words in enumerate((("loopNum", "ubTailFactor"), ("tailBlockLoopNum", "tailBlockUbTailFactor"))):
        for name, size in factor.items():
            loops = math.ceil(share[name][i] / size)
            data |= {words[0] + name: loops, words[1] + name: share[name][i] - (loops - 1) * size}
    data |= {"realCoreNum": best, "isMaskNone": int(not mask)}
    return data, best, taken(width, batches, tokens)


def test_convolutions_against_the_rules():
    choose = random.Random(9)
    for _ in range(trials(150)):
        b = choose.choice((1, 2, 3, 8, choose.randint(1, 70), choose.randint(1, 3000)))
        s = min(choose.choice((1, 2, 31, 32, 33, choose.randint(1, 3000), 524288)), 524288 // b)
        h, cores = 64 * choose.choice((6, 8, 12, 13, choose.randint(6, 384))), choose.choice((1, 28, 36, 56, 64))
        ub_bytes = choose.choice((253952, 262144, choose.randint(8193, 262144), choose.randint(8193, 40000)))
        mask, dtype = choose.random() < 0.5, choose.choice(("bfloat16", "float16"))
        given, chip = {"S": s, "B": b, "H": h, "mask": mask}, sized("950", cores, ub_bytes)
        expected = conv(s, b, h, cores, ub_bytes, mask=mask)
        if expected is None:
            assert check(CONV, given, chip=chip, dtype=dtype).status.code == 561002
            continue
        fields, blocks, taken = expected
        one = plan(CONV, given, chip=chip, dtype=dtype)
        key = 10000 + (dtype == "float16")
        assert tiled(one) == (list(fields.items()), key, blocks, SYSTEM), (given, cores, ub_bytes)
        assert (one.ub_used_bytes, one.ub_available_bytes) == (taken, ub_bytes - 8192)
        assert max(phase.cores for phase in one.phases) == blocks


# -------------------------------------------------------------------- the calls of the vendor
def test_calls_of_the_vendor_have_its_parameters():
    assert parameters_of("aclnnGeGluBackward") == ("gradOutput", "self", "gelu", "dim", "approximate", "gradInput")
    assert parameters_of("aclnnGeGluV3Backward")[-2:] == ("activateLeft", "gradInput")
    assert parameters_of("aclnnSwiGluGrad") == ("yGrad", "x", "dim", "out")
    half, whole = TensorSpec((4, 64), "float16"), TensorSpec((4, 128), "float16")
    for chip, approximate in itertools.product(("ascend950pr", "ascend910b1"), (0, 1, 2)):
        status, *_ = get_workspace_size("aclnnGeGluBackward", half, whole, half, -1, approximate, whole, chip=chip)
        assert status.code == (161002 if approximate > 1 else 0)


def test_words_tell_the_axes_and_the_dtype_of_gamma():
    given = {"x": TensorSpec((50, 7, 33), "float16"), "gamma": TensorSpec((7, 33), "float32")}
    assert in_words(bind(load_operator(NORM), given)) == "x=50x7x33 gamma=7x33:float32"
    assert in_words(bind(load_operator(NORM), {"x": (4, 33)})) == "x=4x33"
