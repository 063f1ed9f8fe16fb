"""The time that a plan takes: cycles and microseconds by phase and pipe, what bounds them, the events behind them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilesim.arguments import checked
from tilesim.chip.chip import Chip
from tilesim.late_binding import Shown, estimates
from tilesim.planning.phase_plan import PhasePlan
from tilesim.planning.plan import Plan
from tilesim.program.dependences import is_pattern, trips
from tilesim.program.loop_nest import Nest, TileRun
from tilesim.program.recorder import Loop
from tilesim.simulation.events import Event, phase_events, widest
from tilesim.simulation.launch import LAUNCH, Launches, launches

LATENCY_SHARE = 1.15
"""A phase that takes so many times its longest pipe is bound by waiting, not by the pipe."""
SAMPLE = 1500
"""Instructions that a sample of a phase has at most: some tens of milliseconds."""
SECONDARY = ("fitted", "guess", "override")
"""What a figure can rest on that a result has to mention."""
WORDS = {"fitted": "fits", "guess": "guesses", "override": "figures set by hand"}


@dataclass(frozen=True)
class PhaseTime:
    """The time of one phase. Cycles are those of its slowest core; bytes are of all cores, in global memory."""

    name: str
    core_kind: str
    cores: int
    cycles: int
    start_us: float
    time_us: float
    makespan_cycles: int
    """Of `cycles`, what the schedule of the slowest core takes with a direction of global memory to itself."""
    busy_cycles: dict[str, int]
    """Cycles that each pipe of the slowest core works."""
    shares: tuple[tuple[int, int], ...]
    """(cycles, cores) of every distinct share of the work."""
    chip_cores: int
    """Cores of its kind that the chip has."""
    waves: int
    """Tiles that the busiest core runs one after another, of the loops that are split over cores."""
    read_bytes: int
    write_bytes: int

    @property
    def longest(self) -> tuple[str, int]:
        """The pipe that works most, and its cycles."""
        return max(self.busy_cycles.items(), key=lambda item: item[1], default=("", 0))

    @property
    def bound(self) -> str:
        """What bounds it: its longest pipe if it takes hardly more than that, else what makes it longer.

        That is "latency: slots/dependencies" where the pipes wait for each other, or "global memory" where reads and
        writes of all cores together take longer than those of one direction; "nothing" if there is no work.
        """
        pipe, busy = self.longest
        if not self.cycles:
            return "nothing"
        if self.cycles <= LATENCY_SHARE * busy:
            return pipe
        waits = self.makespan_cycles - busy
        return "latency: slots/dependencies" if waits >= self.cycles - self.makespan_cycles else "global memory"

    @property
    def waiting(self) -> bool:
        """Whether slots and dependencies bound it rather than a pipe or the memory."""
        return self.bound.startswith("latency")

    @property
    def idle_share(self) -> float:
        """The share of the chip's core time of this kind that is not used while the phase runs: 0 to 1."""
        whole = self.cycles * self.chip_cores
        return 1 - sum(cycles * cores for cycles, cores in self.shares) / whole if whole else 0.0

    def to_json(self) -> dict[str, Any]:
        """Its fields as plain data."""
        return {
            "name": self.name,
            "core_kind": self.core_kind,
            "cores": self.cores,
            "cycles": self.cycles,
            "makespan_cycles": self.makespan_cycles,
            "start_us": round(self.start_us, 6),
            "time_us": round(self.time_us, 6),
            "busy_cycles": dict(self.busy_cycles),
            "bound": self.bound,
            "shares": [{"cycles": cycles, "cores": cores} for cycles, cores in self.shares],
            "idle_share": round(self.idle_share, 6),
            "waves": self.waves,
            "read_bytes": self.read_bytes,
            "write_bytes": self.write_bytes,
        }


@dataclass(frozen=True)
class Timeline(Shown):
    """The time of a launch: its phases in order, with a sync of all cores between them."""

    plan: Plan
    phases: tuple[PhaseTime, ...]
    launch: Launches
    """From a call to the first instruction."""
    sync_us: float
    """All cores waiting for each other, of all syncs."""

    @property
    def launch_us(self) -> float:
        """From a call to the first instruction, of all launches."""
        return self.launch.total_us

    @property
    def cycles(self) -> int:
        """Core cycles of all phases, launch and sync aside."""
        return sum(phase.cycles for phase in self.phases)

    @property
    def overhead_us(self) -> float:
        """Launch and sync."""
        return self.launch_us + self.sync_us

    @property
    def time_us(self) -> float:
        """Launch, phases and sync."""
        return self.overhead_us + sum(phase.time_us for phase in self.phases)

    @property
    def busy_cycles(self) -> dict[str, int]:
        """Cycles that each pipe of the slowest core works, over all phases; pipes of both kinds of cores are summed."""
        out: dict[str, int] = {}
        for phase in self.phases:
            for pipe, cycles in phase.busy_cycles.items():
                out[pipe] = out.get(pipe, 0) + cycles
        return out

    @property
    def bottleneck(self) -> str:
        """What most of the time goes to: phase, pipe and share of the time."""
        longest = max(self.phases, key=lambda phase: phase.time_us, default=None)
        if longest is None or longest.time_us < self.overhead_us:
            return f"launch and sync: {_percent(self.overhead_us, self.time_us)} of the time"
        pipe, busy = longest.longest
        part, share = _percent(busy, longest.cycles), f"{_percent(longest.time_us, self.time_us)} of the time"
        if longest.bound == pipe:
            return f"{longest.name}: {pipe} ({part} busy), {share}"
        if not longest.waiting:
            return f"{longest.name}: global memory, shared by reads and writes ({pipe} busy {part}), {share}"
        causes = self.waits(longest.name)
        why = f"mostly for {next(iter(causes))}" if causes else "for others"
        return f"{longest.name}: latency ({pipe} busy {part}, waits {why}), {share}"

    @functools.cached_property
    def parameters(self) -> frozenset[str]:
        """Keys of the chip that the times rest on: of its cores, and those that prices, launch and syncs declare."""
        of_phases = (key for one in self.plan.phases for key in (f"cores.{one.phase.core_kind}", *one.parameters))
        return frozenset([*of_phases, *self.launch.parameters, *(["launch.sync_us"] if self.sync_us else [])])

    @property
    def rests_on(self) -> dict[str, tuple[str, ...]]:
        """Status -> keys of the chip's figures that the times use and that are fitted, guessed or set by hand."""
        found: dict[str, list[str]] = {status: [] for status in SECONDARY}
        for figure in self.plan.chip.figures():
            if figure.key in self.parameters and figure.status in found:
                found[figure.status].append(figure.key)
        return {status: tuple(keys) for status, keys in found.items() if keys}

    @property
    def estimate(self) -> str:
        """How far the times can be trusted: the tables with figures that are fitted, guessed or set by hand.

        Also what the launch is from.
        """
        parts = []
        for status, keys in self.rests_on.items():
            tables = list(dict.fromkeys(key.rpartition(".")[0] for key in keys))
            parts.append(f"{WORDS[status]} in {', '.join(tables)}")
        rests = f"an estimate with {'; '.join(parts)}" if parts else "an estimate from measured and documented figures"
        return f"{rests}; {self.launch_note}"

    @property
    def launch_note(self) -> str:
        """What the launch is from, in words."""
        if self.launch.table != LAUNCH:
            return f"launch is the fixed time of the vendor's kernel, {self.launch.table}"
        own = f"launch by the chip's figures, for want of a fixed time in kernels.{self.plan.operator.name}"
        return f"{own}, and the tiling data read at the guessed wait of a copy" if self.launch.tiling_us else own

    def waits(self, phase: str) -> dict[str, float]:
        """What the busiest pipe of a phase waits for, to its share of the waiting; largest first.

        Of the slowest core. Of a long phase, what it waits for between its first and last instruction is a sample of
        tiles at the start, in the middle and at the end; what other pipes do after its last one is always exact.
        """
        plan, spent = self._plan_of(phase), self.phase(phase)
        pipe, busy = spent.longest
        core = next((leader for cycles, leader, _ in plan.shares if cycles == plan.cycles), 0)
        found: dict[str, int] = {}
        last, closing = 0, ""
        for event in phase_events(plan, core, widest([(plan, core)], SAMPLE)):
            if event.pipe == pipe:
                if event.waited_cycles:
                    cause = event.waits_for or "others"
                    found[cause] = found.get(cause, 0) + event.waited_cycles
                last = event.end_cycles
            elif event.end_cycles == spent.makespan_cycles:
                closing = f"{event.pipe} at the end"
        idle, sampled, tail = spent.makespan_cycles - busy, sum(found.values()), spent.makespan_cycles - last
        if not idle:
            return {}
        out = {cause: (idle - tail) * waited / sampled / idle for cause, waited in found.items()}
        if idle > tail and not sampled:
            out["others"] = (idle - tail) / idle
        if tail:
            out[closing] = tail / idle
        return dict(sorted(out.items(), key=lambda item: (-item[1], item[0])))

    def events(self, phase: str | None = None, core: int = 0, tiles: int | None = None) -> Iterator[Event]:
        """The events of one core, of all phases or one, phase after phase in program order.

        With `tiles`, only so many tiles of every loop at its start, in the steady state of its middle and at its end,
        and its tail. Raises KeyError for a phase that the plan does not have.
        """
        number = 0
        for one in self.plan.phases if phase is None else [self._plan_of(phase)]:
            for event in phase_events(one, core, tiles, number):
                yield event
                number = event.number + 1

    def phase(self, name: str) -> PhaseTime:
        """The phase of a name. Raises KeyError."""
        return next(p for p in self.phases if p.name == self._plan_of(name).phase.name)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data, under the names of the command line's --json."""
        plan = self.plan
        return {
            "ok": plan.ok,
            "operator": plan.operator.name,
            "chip": plan.chip.name,
            "dims": dict(plan.call.dims),
            "dtype": plan.call.dtype,
            "cycles": self.cycles,
            "time_us": round(self.time_us, 6),
            "launch_us": round(self.launch_us, 6),
            "sync_us": round(self.sync_us, 6),
            "launch_from": self.launch.table,
            "tiling_us": round(self.launch.tiling_us, 6),
            "busy_cycles": self.busy_cycles,
            "bottleneck": self.bottleneck,
            "estimate": self.estimate,
            "rests_on": {status: list(names) for status, names in self.rests_on.items()},
            "phases": [phase.to_json() for phase in self.phases],
            **estimates(self),
        }

    def _plan_of(self, name: str) -> PhasePlan:
        for one in self.plan.phases:
            if one.phase.name == name:
                return one
        raise KeyError(f"no phase {name!r}; there are: {', '.join(p.phase.name for p in self.plan.phases)}")


@checked
def simulate(plan: Plan) -> Timeline:
    """The timeline of a plan: exact under the chip's prices, whatever the number of tiles.

    A phase takes the cycles of its slowest core at the clock of its cores. An operator with an entry in the chip's
    table of the vendor's kernels has that fixed time, which includes the launch; others have the chip's launch and, if
    their size is known, the reading of the tiling data.
    """
    return timeline_of(plan)


def timeline_of(plan: Plan) -> Timeline:
    """Return the timeline of a plan."""
    chip = plan.chip
    launch = launches(plan)
    at, synced, phases = 0.0, 0.0, []
    for i, one in enumerate(plan.phases):
        if i < len(launch.each_us):
            at += launch.each_us[i]
        else:
            at += chip.launch.sync_us
            synced += chip.launch.sync_us
        phases.append(_phase_time(one, chip, at))
        at += phases[-1].time_us
    return Timeline(plan, tuple(phases), launch, synced)


def _phase_time(plan: PhasePlan, chip: Chip, start_us: float) -> PhaseTime:
    kind = plan.phase.core_kind
    return PhaseTime(
        name=plan.phase.name,
        core_kind=kind,
        cores=plan.cores,
        cycles=plan.cycles,
        start_us=start_us,
        time_us=plan.cycles / chip.clock.hz(kind) * 1e6,
        makespan_cycles=plan.makespan,
        busy_cycles=dict(plan.busy_cycles),
        shares=tuple((cycles, cores) for cycles, _, cores in plan.shares),
        chip_cores=chip.cores.cube if kind == "cube" else chip.cores.vector,
        waves=max((waves(nest) for nest, _, _ in plan.nests), default=0),
        read_bytes=plan.traffic.read_bytes,
        write_bytes=plan.traffic.written_bytes,
    )


def waves(nest: Nest) -> int:
    """Tiles of split loops that a nest runs one after another; loops beside each other are not added up."""
    found: dict[Loop, int] = {}
    for item in nest:
        if isinstance(item, TileRun):
            inner = waves(item.body) if not is_pattern(item) else 1
            mine = trips((item,), item.loop) if item.loop.split else 1
            found[item.loop] = found.get(item.loop, 0) + mine * inner if item.loop.split else max(inner, 1)
    return max(found.values(), default=1)


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "0%"
