"""Other tilings of a plan, ranked: other tile sizes, slots and cores, with their cycles and why they lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from tilesim.program.sizes import Variable

RECORDED: Final = "as recorded"
FEWER_CORES: Final = (0.75, 0.5, 0.25)
"""Shares of the chip's cores that are tried as well."""
DOUBLINGS: Final = 2
"""So often is a tile doubled beyond the largest, to say what it does not fit into."""


@dataclass(frozen=True)
class Candidate:
    """One way to tile one phase, the others as the plan has them."""

    phase: str
    tiles: Mapping[str, int]
    slots: str
    """"as recorded", or what is changed, such as "1 for all"."""
    cores: int
    cycles: int | None
    """Of the slowest core; None if it was turned down before it was scheduled."""
    bound_cycles: int | None
    """Of its longest pipe alone; None if it does not fit."""
    rank: int | None
    """Among those of the phase, the fastest first; None if it was turned down."""
    chosen: bool
    """Whether it is what the plan has."""
    reason: str
    """Who chose it and what it loses, or why it was turned down."""
    grid: str = ""
    """Of matrix products, cores over tiles of m and of n, such as "4 x 8", with those over groups before them."""

    def to_json(self) -> dict[str, Any]:
        """The fields as plain data."""
        return {**vars(self), "tiles": dict(self.tiles)}


@dataclass
class _Trial:
    """A candidate while it is looked at."""

    tiles: Mapping[str, int]
    slots: str
    cores: int
    plan: PhasePlan | None = None
    reason: str = ""
    bound: int | None = field(default=None)


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
    """Ranked ways to tile every phase of a call (or one phase), those of the phase that takes longest first.

    Tile sizes by halves and equal parts of the largest, one to three slots, fewer cores; of a matrix product all tiles
    and grids that the planner considers. What does not fit says which memory lacks how many bytes; what cannot be
    faster than the best says so by its longest pipe. Phases are searched one by one, with the others as planned; where
    a later phase reads one partial result a core, the cores stay. With `tiles` by hand the plan that is searched is the
    one that `plan` makes of them. Raises what `plan` raises.
    """
    call = bind(load_operator(op), given, dtype=dtype, **options)
    verdict = verdict_of(call, chip if isinstance(chip, Chip) else load_chip(chip))
    return search_of(plan_of(verdict, tiles), phase)


def search_of(plan: Plan, phase: str | None = None) -> list[Candidate]:
    """The candidates of a plan that is already made. Raises BadInput for a phase that it does not have."""
    names = [one.phase.name for one in plan.phases]
    if phase is not None and phase not in names:
        hint = did_you_mean(phase, names) or f" there are: {', '.join(names)}"
        raise BadInput(plan.operator.name, [f"{phase!r} is not a phase;{hint}"])
    kernels = _with_other_slots(plan)
    wanted = [one for one in plan.phases if phase in (None, one.phase.name)]
    out: list[Candidate] = []
    for one in sorted(wanted, key=lambda p: -p.cycles):
        look = _cube_trials if one.phase.core_kind == "cube" else _vector_trials
        out += _ranked(one, list(look(plan, one, kernels)))
    return out


def search_table(candidates: Sequence[Candidate]) -> Table:
    """The candidates as a table, with what the best of every phase would come to together."""
    columns = (
        Column("phase"),
        Column("rank"),
        Column("chosen"),
        Column("tiles", "", "tile sizes [elements]"),
        Column("slots", "", "slots of the buffers, where they are others than the operator's"),
        Column("cores", "cores"),
        Column("grid", "", "cores over tiles of m and of n, of matrix products"),
        Column("cycles", "cycles", "of the slowest core"),
        Column("longest_pipe", "cycles", "what the longest pipe takes alone"),
        Column("reason"),
    )
    rows = [
        (c.phase, c.rank, c.chosen, _words(c.tiles), c.slots, c.cores, c.grid, c.cycles, c.bound_cycles, c.reason)
        for c in candidates
    ]
    planned_cycles = sum(c.cycles or 0 for c in candidates if c.chosen)
    best_cycles = sum(c.cycles or 0 for c in candidates if c.rank == 1)
    less = f"{100 * (best_cycles / planned_cycles - 1):.1f} %" if planned_cycles else "no work"
    note = f"the plan takes {planned_cycles:,} cycles, the best of every phase {best_cycles:,} ({less})"
    return table_of("ways to tile", columns, rows, [note])


def _words(tiles: Mapping[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in tiles.items())


# ---------------------------------------------------------------- kernels with other slots
Change = Callable[[Phase, Buffer], int]
"""The slots of a buffer of a phase."""


def _with_other_slots(plan: Plan) -> dict[str, Kernel]:
    """The kernel, and copies of it whose buffers have other slots, by what is changed."""
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
        # Recorded anew, since a recorded kernel belongs to everyone and its buffers remember their bytes.
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
    """Buffers of several slots that are copied to global memory, or from it."""
    found: set[Buffer] = set()
    for instr in phase.instructions():
        ends = [v.base for v in (*instr.reads(), instr.dst)]
        if instr.op in COPIES and "gm" in instr.route:
            wanted = instr.route[1] == "gm"
            found |= {b for b in ends if isinstance(b, Buffer) and b.slots > 1 and wanted is out}
    return found


def _variants(
    plan: Plan, one: PhasePlan, kernels: Mapping[str, Kernel]
) -> Iterator[tuple[str, Phase, list[Inequality]]]:
    """The phase in every kernel in which its slots are others, with its inequalities."""
    seen: list[list[int]] = []
    for name, kernel in kernels.items():
        phase = next(p for p in kernel.phases if p.name == one.phase.name)
        slots = [b.slots for b in phase.buffers]
        if slots in seen:
            continue
        seen.append(slots)
        yield name, phase, [i for i in inequalities(kernel, plan.chip) if i.phase == phase.name]


# ---------------------------------------------------------------- vector phases
def _vector_trials(plan: Plan, one: PhasePlan, kernels: Mapping[str, Kernel]) -> Iterator[_Trial]:
    """Every tiling of a vector phase that is worth a look."""
    cores = plan.chip.cores.vector
    yield _Trial(one.tiles, RECORDED, one.cores, one)
    if not one.cycles:  # nothing to divide
        return
    for name, phase, limits in _variants(plan, one, kernels):
        largest = vector_plan(phase, plan.sizes, plan.chip, limits, {})
        choices = [_values(phase, largest, one, tile, beyond=name == RECORDED) for tile in phase.tiles]
        combined = list(itertools.product(*choices)) if len(choices) < 2 else list(_one_at_a_time(largest, choices))
        for values in combined:
            tiles = dict(zip(phase.tiles, values, strict=True))
            yield _vector_trial(plan, phase, limits, name, tiles, cores)
        if name == RECORDED and not _partials(plan, one):
            for share in FEWER_CORES:
                yield _vector_trial(plan, phase, limits, name, one.tiles, max(int(cores * share), 1))


def _values(phase: Phase, largest: PhasePlan, one: PhasePlan, name: str, *, beyond: bool) -> list[int]:
    """Sizes of a tile to try: halves and equal parts of the largest that fits, and if wanted those beyond it."""
    tile, top = phase.tiles[name], largest.tiles[name]
    step = tile.multiple_of
    loops = [loop for loop in phase.loops() if name in loop.tile.names()]
    known = [loop for loop in loops if loop.extent.names() <= largest.sizes.keys()]
    split = {loop for loop, _ in split_loops(phase)}
    extents = {loop: int(loop.extent.bind(largest.sizes)) for loop in known}
    longest = max(extents.values(), default=top)
    shares = [-(-extent // (largest.cores if loop in split else 1)) for loop, extent in extents.items()]
    share = max(shares, default=top)
    wanted = {top, one.tiles[name], -(-share // -(-share // max(top, 1)))}
    wanted |= {top // 2**i for i in range(1, top.bit_length())}
    more = {top * 2**i for i in range(1, DOUBLINGS + 1) if top * 2**i < 2 * longest} if beyond else set()
    return sorted({max(-(-value // step) * step, step) for value in wanted} | more, reverse=True)


def _one_at_a_time(largest: PhasePlan, choices: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """The largest tiles with one of them changed, and all of them halved."""
    top = tuple(largest.tiles.values())
    for i, values in enumerate(choices):
        yield from ((*top[:i], value, *top[i + 1 :]) for value in values)
    yield tuple(max(value // 2, 1) for value in top)


def _vector_trial(
    plan: Plan, phase: Phase, limits: list[Inequality], slots: str, tiles: Mapping[str, int], cores: int
) -> _Trial:
    """A tiling, planned if it fits."""
    cap = {n: t for n, t in phase.tiles.items() if t.cap is not None and n in tiles}
    about = {**plan.sizes, **tiles, "copy_bytes": plan.chip.tiling.copy_bytes, "vector_cores": cores}
    for limit in limits:
        missing = -limit.slack_bytes({**plan.sizes, **tiles})
        if missing > 0:
            return _Trial(tiles, slots, cores, None, f"does not fit: {missing:,} B too many in {limit.memory}")
    for name, tile in cap.items():
        most = max(int(tile.cap.bind(about)), tile.multiple_of) if tile.cap is not None else tiles[name]
        if tiles[name] > most:
            return _Trial(tiles, slots, cores, None, f"{name} is {tile.cap_reason or f'at most {most}'}")
    made = vector_plan(phase, plan.sizes, plan.chip, limits, {**tiles, "cores": cores})
    return _Trial(made.tiles, slots, made.cores, made)


def _partials(plan: Plan, one: PhasePlan) -> bool:
    """Whether a workspace has a row for every core of a phase."""
    name = Variable(one.phase.name, "cores")
    return any(name in size.names() for tensor in plan.kernel.workspaces.values() for size in tensor.shape)


# ---------------------------------------------------------------- matrix products
def _cube_trials(plan: Plan, one: PhasePlan, kernels: Mapping[str, Kernel]) -> Iterator[_Trial]:
    """Every tiling of a matrix product that the planner considers, the nearest that do not fit, and other slots."""
    yield _Trial(one.tiles, RECORDED, one.cores, one)
    for name, phase, limits in _variants(plan, one, kernels):
        if name != RECORDED:  # the fastest of them stands for all
            if any(limit.slack_bytes({**plan.sizes}) < 0 for limit in limits):
                worst = min(limits, key=lambda limit: limit.slack_bytes({**plan.sizes}))
                missing = -worst.slack_bytes({**plan.sizes})
                yield _Trial({}, name, one.cores, None, f"does not fit: {missing:,} B too many in {worst.memory}")
            else:
                best = cube_plan(phase, plan.sizes, plan.chip, limits, {})
                yield _Trial(best.tiles, name, best.cores, best)
            continue
        options = cube_options(phase, plan.sizes, plan.chip, limits, {})
        for option in options:
            yield _cube_trial(plan, phase, option)
        yield from _too_large(plan, phase, limits, {(o["m"], o["n"]): o["k1"] for o in options})


def _cube_trial(plan: Plan, phase: Phase, option: Mapping[str, int]) -> _Trial:
    """A tiling of a matrix product on a grid of cores."""
    tiles = {name: option[name] for name in phase.tiles}
    cores = used_cores(option)
    sizes = {**plan.sizes, **option, Variable(phase.name, "cores"): cores}
    return _Trial(tiles, RECORDED, cores, PhasePlan(phase, plan.chip, sizes, tiles, {}, cores))


def _too_large(
    plan: Plan, phase: Phase, limits: Sequence[Inequality], fitting: Mapping[tuple[int, int], int]
) -> Iterator[_Trial]:
    """Tiles of which one side is double that of tiles that fit, and which do not."""
    extents = {loop.name: int(loop.extent.bind(plan.sizes)) for loop in phase.loops() if loop.name in ("mi", "ni")}
    seen = set(fitting)
    for m, n in fitting:
        for tile in ((2 * m, n), (m, 2 * n)):
            if tile in seen or tile[0] >= 2 * extents["mi"] or tile[1] >= 2 * extents["ni"]:
                continue
            seen.add(tile)
            tiles = {"m": tile[0], "n": tile[1], "k1": phase.k_block}
            sizes = {**plan.sizes, **tiles}
            worst = min(limits, key=lambda limit: limit.slack_bytes(sizes))
            missing = -worst.slack_bytes(sizes)
            if missing > 0:
                yield _Trial(
                    tiles,
                    RECORDED,
                    plan.chip.cores.cube,
                    None,
                    f"does not fit: {missing:,} B too many in {worst.memory}",
                )


# ---------------------------------------------------------------- ranking
def _ranked(one: PhasePlan, trials: Sequence[_Trial]) -> list[Candidate]:
    """The candidates of a phase, the fastest first, then those that were turned down."""
    unique: dict[tuple[Any, ...], _Trial] = {}
    for trial in trials:
        unique.setdefault((tuple(trial.tiles.items()), trial.slots, trial.cores, _grid(trial)), trial)
    fitting = [trial for trial in unique.values() if trial.plan is not None]
    for trial in fitting:
        trial.bound = _bound(trial.plan)
    fitting.sort(key=lambda trial: (trial.plan is not one, trial.bound or 0))
    best = one.cycles
    for trial in fitting:
        if trial.plan is not one and trial.bound is not None and trial.bound >= best:
            trial.reason = f"longest pipe alone {trial.bound:,} cycles >= best {best:,}"
        elif trial.plan is not None:
            best = min(best, trial.plan.cycles)
    timed = sorted((t for t in fitting if not t.reason), key=lambda t: (_cycles(t), t.plan is not one))
    out = [_candidate(one, trial, rank, best) for rank, trial in enumerate(timed, 1)]
    rest = sorted((t for t in fitting if t.reason), key=lambda t: t.bound or 0)
    rest += [trial for trial in unique.values() if trial.plan is None]
    return out + [_candidate(one, trial, None, best) for trial in rest]


def _candidate(one: PhasePlan, trial: _Trial, rank: int | None, best: int) -> Candidate:
    """A trial with its place."""
    cycles = _cycles(trial) if rank else None
    reason = trial.reason
    chosen = trial.plan is one
    if cycles is not None:
        place = "best" if rank == 1 or chosen else "as fast as the best"
        if cycles > best:
            place = f"lost: {cycles - best:,} cycles (+{100 * (cycles / best - 1):.1f} %)"
        elif rank == 1 and cycles < one.cycles:
            place = f"best: {one.cycles - cycles:,} cycles less than the plan ({100 * (cycles / one.cycles - 1):.1f} %)"
        reason = f"{_chooser(one)}; {place}" if chosen else place
    return Candidate(
        one.phase.name,
        dict(trial.tiles),
        trial.slots,
        trial.cores,
        cycles,
        trial.bound,
        rank,
        chosen,
        reason,
        _grid(trial),
    )


def _grid(trial: _Trial) -> str:
    """The grid of cores of a matrix product, "" for any other phase."""
    if trial.plan is None:
        return ""
    parts = [(n.owner, v) for n, v in trial.plan.sizes.items() if isinstance(n, Variable) and n.word == "parts"]
    return " x ".join(str(count) for loop, count in parts if loop != "group" or count > 1)


def _chooser(one: PhasePlan) -> str:
    """Who chose the plan's tiles."""
    rules = [reason for reason in one.reasons.values() if "vendor" in reason]
    return "chosen by the vendor's rule" if rules else "chosen by the plan"


def _cycles(trial: _Trial) -> int:
    return trial.plan.cycles if trial.plan is not None else 0


def _bound(plan: PhasePlan | None) -> int:
    """Cycles of the longest pipe of its first core, which no schedule beats."""
    return 0 if plan is None or not plan.nests else max(plan.scheduler.busy(plan.nests[0][0]).values(), default=0)
