"""Ranked tilings of a plan: other tile sizes, slots and cores, with their cycles and the reasons of their ranks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilesim.analysis.table import Column, Table, table_of
from tilesim.arguments import checked
from tilesim.chip.chip import Chip
from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput, did_you_mean
from tilesim.feasibility.inequalities import Inequality, inequalities
from tilesim.feasibility.verdict import verdict_of
from tilesim.operators.binding import Given, bind
from tilesim.operators.operator import Operator
from tilesim.ops import load_operator
from tilesim.planning.cube_tiling import cube_options, cube_plan, used_cores
from tilesim.planning.phase_plan import PhasePlan
from tilesim.planning.plan import Plan, plan_of
from tilesim.planning.vector_tiling import vector_plan
from tilesim.program.buffers import Buffer
from tilesim.program.isa import COPIES
from tilesim.program.loop_nest import split_loops
from tilesim.program.recorder import Kernel, Phase
from tilesim.program.sizes import Env, Variable

RECORDED: Final = "as recorded"
"""Slots of a candidate with those of the operator."""
FEWER_CORES: Final = (0.75, 0.5, 0.25)
"""Shares of the chip's cores that the search tries."""
DOUBLINGS: Final = 2
"""Number of doublings of a tile beyond the largest, to report the memory that it exceeds."""


@dataclass(frozen=True)
class Candidate:
    """Tiling of one phase, the others as planned."""

    phase: str
    tiles: Mapping[str, int]
    slots: str
    """"as recorded", or the change, such as "1 for all"."""
    cores: int
    cycles: int | None
    """Cycles of the slowest core; None if the candidate was rejected before its schedule."""
    bound_cycles: int | None
    """Cycles of its longest pipe alone; None if it does not fit."""
    rank: int | None
    """Rank among the candidates of the phase, 1 the fastest; None if it was rejected."""
    chosen: bool
    """True if it is the tiling of the plan."""
    reason: str
    """Reason of the choice or of the rank, or of the rejection."""
    grid: str = ""
    """Cores over tiles of m and of n of a matrix product, such as "4 x 8", with those over groups before them."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return {**vars(self), "tiles": dict(self.tiles)}


@dataclass
class _Tiling:
    """Candidate before it is ranked; without a plan, `reason` is that of its rejection."""

    tiles: Mapping[str, int]
    slots: str
    cores: int
    plan: PhasePlan | None = None
    reason: str = ""
    bound: int | None = None


@checked
def search(
    op: Operator | str | Path,
    given: Given,
    chip: Chip | str | Path,
    *,
    dtype: str | None = None,
    phase: str | None = None,
    tiles: Mapping[str, int] | None = None,
    **options: Any,
) -> list[Candidate]:
    """Return ranked tilings of every phase of a call (or of one phase), those of the longest phase first.

    Tile sizes by halves and equal parts of the largest, one to three slots, fewer cores; of a matrix product all tiles
    and grids that the planner considers. The reason of a tiling that does not fit gives the memory and the missing
    bytes; the reason of one that cannot be the fastest gives the cycles of its longest pipe. Phases are searched one by
    one, with the others as planned; if a later phase reads one partial result of each core, the cores stay. With
    `tiles` by hand, the search starts from the plan that `plan` makes of them. Raises what `plan` raises.
    """
    call = bind(load_operator(op), given, dtype=dtype, **options)
    verdict = verdict_of(call, chip if isinstance(chip, Chip) else load_chip(chip))
    return search_of(plan_of(verdict, tiles), phase)


def search_of(plan: Plan, phase: str | None = None) -> list[Candidate]:
    """Return the candidates of a plan. Raises BadInput for a phase that it does not have."""
    names = [planned.phase.name for planned in plan.phases]
    if phase is not None and phase not in names:
        hint = did_you_mean(phase, names) or f" there are: {', '.join(names)}"
        raise BadInput(plan.operator.name, [f"{phase!r} is not a phase;{hint}"])
    kernels = _with_other_slots(plan)
    searched = [planned for planned in plan.phases if phase in (None, planned.phase.name)]
    out: list[Candidate] = []
    for planned in sorted(searched, key=lambda p: -p.cycles):
        tilings = _cube_tilings if planned.phase.core_kind == "cube" else _vector_tilings
        out += _ranked(planned, list(tilings(plan, planned, kernels)))
    return out


def search_table(candidates: Sequence[Candidate]) -> Table:
    """Return the candidates as a table, with the sum of the best of every phase in a note."""
    columns = (
        Column("phase"),
        Column("rank"),
        Column("chosen"),
        Column("tiles", "", "tile sizes [elements]"),
        Column("slots", "", "slots of the buffers, as recorded or changed"),
        Column("cores", "cores"),
        Column("grid", "", "cores over tiles of m and of n, of matrix products"),
        Column("cycles", "cycles", "of the slowest core"),
        Column("longest_pipe", "cycles", "of the longest pipe alone"),
        Column("reason"),
    )
    rows = [
        (c.phase, c.rank, c.chosen, _words(c.tiles), c.slots, c.cores, c.grid, c.cycles, c.bound_cycles, c.reason)
        for c in candidates
    ]
    planned_cycles = sum(c.cycles or 0 for c in candidates if c.chosen)
    best_cycles = sum(c.cycles or 0 for c in candidates if c.rank == 1)
    difference = f"{100 * (best_cycles / planned_cycles - 1):.1f} %" if planned_cycles else "no work"
    note = f"the plan takes {planned_cycles:,} cycles, the best of every phase {best_cycles:,} ({difference})"
    return table_of("tilings", columns, rows, [note])


def _words(tiles: Mapping[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in tiles.items())


# ---------------------------------------------------------------- kernels with other slots
Change = Callable[[Phase, Buffer], int]
"""Function of a phase and a buffer to the slots of the buffer."""


def _with_other_slots(plan: Plan) -> dict[str, Kernel]:
    """Return the kernel, and copies of it whose buffers have other slots, by the change."""
    kernel = plan.kernel
    changes: dict[str, Change] = {
        "1 for all": lambda _, __: 1,
        "1 for stores": lambda p, b: 1 if b in _copied(p, out=True) else b.slots,
        "1 for loads": lambda p, b: 1 if b in _copied(p, out=False) else b.slots,
        "3 for all of several": lambda _, b: 3 if b.slots > 1 else b.slots,
        "2 for c": lambda p, b: 2 if p.core_kind == "cube" and b.space == "l0c" else b.slots,
    }
    out = {RECORDED: kernel}
    for name, change in changes.items():
        # Recorded again, since a recorded kernel is shared and its buffers cache their bytes.
        copy = Kernel(
            kernel.name, kernel.dtype, kernel.options, kernel.tensors, kernel.family, kernel.variant, kernel.registers
        )
        plan.operator.kernel(copy)
        for phase in copy.phases:
            for buffer, slots in [(b, change(phase, b)) for b in phase.buffers if not b.pool]:
                buffer.slots = slots
                buffer.__dict__.pop("bytes", None)
        out[name] = copy
    return out


def _copied(phase: Phase, *, out: bool) -> set[Buffer]:
    """Return the buffers of several slots that are copied to global memory, or from it."""
    buffers: set[Buffer] = set()
    for instr in phase.instructions():
        ends = [v.base for v in (*instr.reads(), instr.dst)]
        if instr.op in COPIES and "gm" in instr.route:
            stores = instr.route[1] == "gm"
            buffers |= {b for b in ends if isinstance(b, Buffer) and b.slots > 1 and stores is out}
    return buffers


def _variants(
    plan: Plan, planned: PhasePlan, kernels: Mapping[str, Kernel]
) -> Iterator[tuple[str, Phase, list[Inequality]]]:
    """Yield the phase of every kernel in which its slots differ from those before, with its inequalities."""
    seen: list[list[int]] = []
    for name, kernel in kernels.items():
        phase = next(p for p in kernel.phases if p.name == planned.phase.name)
        slots = [b.slots for b in phase.buffers]
        if slots in seen:
            continue
        seen.append(slots)
        yield name, phase, [i for i in inequalities(kernel, plan.chip) if i.phase == phase.name]


# ---------------------------------------------------------------- vector phases
def _vector_tilings(plan: Plan, planned: PhasePlan, kernels: Mapping[str, Kernel]) -> Iterator[_Tiling]:
    """Yield the tilings of a vector phase."""
    cores = plan.chip.cores.vector
    yield _Tiling(planned.tiles, RECORDED, planned.cores, planned)
    if not planned.cycles:  # no work to divide
        return
    for name, phase, limits in _variants(plan, planned, kernels):
        largest = vector_plan(phase, plan.sizes, plan.chip, limits, {})
        choices = [_sizes(phase, largest, planned, tile, beyond=name == RECORDED) for tile in phase.tiles]
        combined = list(itertools.product(*choices)) if len(choices) < 2 else list(_one_at_a_time(largest, choices))
        for values in combined:
            tiles = dict(zip(phase.tiles, values, strict=True))
            yield _vector_tiling(plan, phase, limits, name, tiles, cores)
        if name == RECORDED and not _has_partial_results(plan, planned):
            for share in FEWER_CORES:
                yield _vector_tiling(plan, phase, limits, name, planned.tiles, max(int(cores * share), 1))


def _sizes(phase: Phase, largest: PhasePlan, planned: PhasePlan, name: str, *, beyond: bool) -> list[int]:
    """Return the sizes of a tile to try: halves and equal parts of the largest that fits, with `beyond` larger ones."""
    tile, top = phase.tiles[name], largest.tiles[name]
    step = tile.multiple_of
    loops = [loop for loop in phase.loops() if name in loop.tile.names()]
    known = [loop for loop in loops if loop.extent.names() <= largest.sizes.keys()]
    split = {loop for loop, _ in split_loops(phase)}
    extents = {loop: int(loop.extent.bind(largest.sizes)) for loop in known}
    longest = max(extents.values(), default=top)
    shares = [-(-extent // (largest.cores if loop in split else 1)) for loop, extent in extents.items()]
    share = max(shares, default=top)
    fitting = {top, planned.tiles[name], -(-share // -(-share // max(top, 1)))}
    fitting |= {top // 2**i for i in range(1, top.bit_length())}
    larger = {top * 2**i for i in range(1, DOUBLINGS + 1) if top * 2**i < 2 * longest} if beyond else set()
    return sorted({max(-(-value // step) * step, step) for value in fitting} | larger, reverse=True)


def _one_at_a_time(largest: PhasePlan, choices: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Yield the largest tiles with one of them changed, and all of them halved."""
    top = tuple(largest.tiles.values())
    for i, values in enumerate(choices):
        yield from ((*top[:i], value, *top[i + 1 :]) for value in values)
    yield tuple(max(value // 2, 1) for value in top)


def _vector_tiling(
    plan: Plan, phase: Phase, limits: list[Inequality], slots: str, tiles: Mapping[str, int], cores: int
) -> _Tiling:
    """Return a tiling of a vector phase, with a plan if it fits."""
    env = {**plan.sizes, **tiles, "copy_bytes": plan.chip.tiling.copy_bytes, "vector_cores": cores}
    if overflow := _overflow(limits, {**plan.sizes, **tiles}):
        return _Tiling(tiles, slots, cores, None, overflow)
    for name, size in tiles.items():
        tile = phase.tiles[name]
        most = size if tile.cap is None else max(int(tile.cap.bind(env)), tile.multiple_of)
        if size > most:
            return _Tiling(tiles, slots, cores, None, f"{name} is {tile.cap_reason or f'at most {most}'}")
    planned = vector_plan(phase, plan.sizes, plan.chip, limits, {**tiles, "cores": cores})
    return _Tiling(planned.tiles, slots, planned.cores, planned)


def _overflow(limits: Sequence[Inequality], sizes: Env) -> str:
    """Return the reason why sizes do not fit, by the inequality with the least slack; "" if they fit."""
    worst = min(limits, key=lambda limit: limit.slack_bytes(sizes), default=None)
    missing = -worst.slack_bytes(sizes) if worst else 0
    return f"does not fit: {missing:,} B too many in {worst.memory}" if worst and missing > 0 else ""


def _has_partial_results(plan: Plan, planned: PhasePlan) -> bool:
    """Return True if a workspace has a row for every core of a phase."""
    name = Variable(planned.phase.name, "cores")
    return any(name in size.names() for tensor in plan.kernel.workspaces.values() for size in tensor.shape)


# ---------------------------------------------------------------- matrix products
def _cube_tilings(plan: Plan, planned: PhasePlan, kernels: Mapping[str, Kernel]) -> Iterator[_Tiling]:
    """Yield the tilings of a matrix product that the planner considers, the nearest that do not fit, other slots."""
    yield _Tiling(planned.tiles, RECORDED, planned.cores, planned)
    for name, phase, limits in _variants(plan, planned, kernels):
        if name != RECORDED:  # the fastest tiling represents all with these slots
            if overflow := _overflow(limits, plan.sizes):
                yield _Tiling({}, name, planned.cores, None, overflow)
            else:
                best = cube_plan(phase, plan.sizes, plan.chip, limits, {})
                yield _Tiling(best.tiles, name, best.cores, best)
            continue
        options = cube_options(phase, plan.sizes, plan.chip, limits, {})
        for option in options:
            yield _cube_tiling(plan, phase, option)
        yield from _too_large(plan, phase, limits, {(o["m"], o["n"]): o["k1"] for o in options})


def _cube_tiling(plan: Plan, phase: Phase, option: Mapping[str, int]) -> _Tiling:
    """Return a tiling of a matrix product on a grid of cores."""
    tiles = {name: option[name] for name in phase.tiles}
    cores = used_cores(option)
    sizes = {**plan.sizes, **option, Variable(phase.name, "cores"): cores}
    return _Tiling(tiles, RECORDED, cores, PhasePlan(phase, plan.chip, sizes, tiles, {}, cores))


def _too_large(
    plan: Plan, phase: Phase, limits: Sequence[Inequality], fitting: Mapping[tuple[int, int], int]
) -> Iterator[_Tiling]:
    """Yield tiles that do not fit and of which one side is double that of tiles that fit."""
    extents = {loop.name: int(loop.extent.bind(plan.sizes)) for loop in phase.loops() if loop.name in ("mi", "ni")}
    seen = set(fitting)
    for m, n in fitting:
        for tile in ((2 * m, n), (m, 2 * n)):
            if tile in seen or tile[0] >= 2 * extents["mi"] or tile[1] >= 2 * extents["ni"]:
                continue
            seen.add(tile)
            tiles = {"m": tile[0], "n": tile[1], "k1": phase.k_block}
            if overflow := _overflow(limits, {**plan.sizes, **tiles}):
                yield _Tiling(tiles, RECORDED, plan.chip.cores.cube, None, overflow)


# ---------------------------------------------------------------- ranking
def _ranked(planned: PhasePlan, tilings: Sequence[_Tiling]) -> list[Candidate]:
    """Return the candidates of a phase, the fastest first, then the rejected ones."""
    unique: dict[tuple[Any, ...], _Tiling] = {}
    for tiling in tilings:
        unique.setdefault((tuple(tiling.tiles.items()), tiling.slots, tiling.cores, _grid(tiling)), tiling)
    fitting = [tiling for tiling in unique.values() if tiling.plan is not None]
    for tiling in fitting:
        tiling.bound = tiling.plan.longest_pipe_cycles if tiling.plan else 0
    fitting.sort(key=lambda tiling: (tiling.plan is not planned, tiling.bound or 0))
    best = planned.cycles
    for tiling in fitting:
        if tiling.plan is not planned and tiling.bound is not None and tiling.bound >= best:
            tiling.reason = f"longest pipe alone {tiling.bound:,} cycles >= best {best:,}"
        elif tiling.plan is not None:
            best = min(best, tiling.plan.cycles)
    timed = sorted((t for t in fitting if not t.reason), key=lambda t: (_cycles(t), t.plan is not planned))
    out = [_candidate(planned, tiling, rank, best) for rank, tiling in enumerate(timed, 1)]
    rejected = sorted((t for t in fitting if t.reason), key=lambda t: t.bound or 0)
    rejected += [tiling for tiling in unique.values() if tiling.plan is None]
    return out + [_candidate(planned, tiling, None, best) for tiling in rejected]


def _candidate(planned: PhasePlan, tiling: _Tiling, rank: int | None, best: int) -> Candidate:
    """Return the candidate of a tiling with its rank."""
    cycles = _cycles(tiling) if rank else None
    reason = tiling.reason
    chosen = tiling.plan is planned
    if cycles is not None:
        result = "best" if rank == 1 or chosen else "as fast as the best"
        if cycles > best:
            result = f"lost: {cycles - best:,} cycles (+{100 * (cycles / best - 1):.1f} %)"
        elif rank == 1 and cycles < planned.cycles:
            percent = f"{100 * (cycles / planned.cycles - 1):.1f} %"
            result = f"best: {planned.cycles - cycles:,} cycles less than the plan ({percent})"
        reason = f"{_chooser(planned)}; {result}" if chosen else result
    return Candidate(
        planned.phase.name,
        dict(tiling.tiles),
        tiling.slots,
        tiling.cores,
        cycles,
        tiling.bound,
        rank,
        chosen,
        reason,
        _grid(tiling),
    )


def _grid(tiling: _Tiling) -> str:
    """Return the grid of cores of a matrix product, "" for any other phase."""
    if tiling.plan is None:
        return ""
    parts = [(n.owner, v) for n, v in tiling.plan.sizes.items() if isinstance(n, Variable) and n.word == "parts"]
    return " x ".join(str(count) for loop, count in parts if loop != "group" or count > 1)


def _chooser(planned: PhasePlan) -> str:
    """Return the author of the plan's tiles in words."""
    rules = [reason for reason in planned.reasons.values() if "vendor" in reason]
    return "chosen by the vendor's rule" if rules else "chosen by the plan"


def _cycles(tiling: _Tiling) -> int:
    return tiling.plan.cycles if tiling.plan is not None else 0
