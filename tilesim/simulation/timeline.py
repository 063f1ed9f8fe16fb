"""Time of a plan: cycles and microseconds by phase and pipe, their bounds, the events behind them."""

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
"""Ratio of a phase to its longest pipe above which waiting bounds the phase, not the pipe."""
SAMPLE = 1500
"""Most instructions in a sample of a phase, which takes some tens of milliseconds."""
SECONDARY = ("fitted", "guess", "override")
"""Statuses of parameters that a result has to mention."""
WORDS = {"fitted": "fits", "guess": "guesses", "override": "parameters set by hand"}


@dataclass(frozen=True)
class PhaseTime:
    """Time of one phase. Cycles are those of its slowest core; bytes are of all cores, in global memory."""

    name: str
    core_kind: str
    cores: int
    cycles: int
    start_us: float
    time_us: float
    makespan_cycles: int
    """Cycles of the schedule of the slowest core, in which reads and writes do not share global memory."""
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
        """Pipe that works most, and its cycles."""
        return max(self.busy_cycles.items(), key=lambda item: item[1], default=("", 0))

    @property
    def bound(self) -> str:
        """Bound of the phase: its longest pipe if the phase takes at most LATENCY_SHARE times its cycles.

        Else "latency: slots/dependencies" if the pipes wait for each other, or "global memory" if reads and writes of
        all cores together take longer than those of one direction; "nothing" without work.
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
        """True if slots and dependencies bound it rather than a pipe or the memory."""
        return self.bound.startswith("latency")

    @property
    def idle_share(self) -> float:
        """Idle share of the core time of all cores of this kind while the phase runs: 0 to 1."""
        core_cycles = self.cycles * self.chip_cores
        return 1 - sum(cycles * cores for cycles, cores in self.shares) / core_cycles if core_cycles else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain data."""
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
    """Time of a plan: its phases in order, with a launch or a sync of all cores before each."""

    plan: Plan
    phases: tuple[PhaseTime, ...]
    launch: Launches
    """Launches: time from a call to the first instruction."""
    sync_us: float
    """Microseconds of all syncs, in which all cores wait for each other."""

    @property
    def launch_us(self) -> float:
        """Microseconds of all launches."""
        return self.launch.total_us

    @property
    def cycles(self) -> int:
        """Core cycles of all phases, without launch and sync."""
        return sum(phase.cycles for phase in self.phases)

    @property
    def overhead_us(self) -> float:
        """Microseconds of launch and sync."""
        return self.launch_us + self.sync_us

    @property
    def time_us(self) -> float:
        """Microseconds of launch, phases and sync."""
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
        """Phase that takes most of the time, with its pipe and its share, or launch and sync."""
        longest = max(self.phases, key=lambda phase: phase.time_us, default=None)
        if longest is None or longest.time_us < self.overhead_us:
            return f"launch and sync: {_percent(self.overhead_us, self.time_us)} of the time"
        pipe, busy = longest.longest
        busy_share, share = _percent(busy, longest.cycles), f"{_percent(longest.time_us, self.time_us)} of the time"
        if longest.bound == pipe:
            return f"{longest.name}: {pipe} ({busy_share} busy), {share}"
        if not longest.waiting:
            return f"{longest.name}: global memory, shared by reads and writes ({pipe} busy {busy_share}), {share}"
        causes = self.waits(longest.name)
        cause = f"mostly for {next(iter(causes))}" if causes else "for others"
        return f"{longest.name}: latency ({pipe} busy {busy_share}, waits {cause}), {share}"

    @functools.cached_property
    def parameters(self) -> frozenset[str]:
        """Keys of the chip that the times rest on: of its cores, and those that prices, launch and syncs declare."""
        of_phases = (key for p in self.plan.phases for key in (f"cores.{p.phase.core_kind}", *p.parameters))
        return frozenset([*of_phases, *self.launch.parameters, *(["launch.sync_us"] if self.sync_us else [])])

    @property
    def rests_on(self) -> dict[str, tuple[str, ...]]:
        """Status -> keys of the chip that the times use and whose values are fitted, guessed or set by hand."""
        keys_of: dict[str, list[str]] = {status: [] for status in SECONDARY}
        for parameter in self.plan.chip.figures():
            if parameter.key in self.parameters and parameter.status in keys_of:
                keys_of[parameter.status].append(parameter.key)
        return {status: tuple(keys) for status, keys in keys_of.items() if keys}

    @property
    def estimate(self) -> str:
        """Basis of the times: the tables with parameters that are fitted, guessed or set by hand, and `launch_note`."""
        parts = []
        for status, keys in self.rests_on.items():
            tables = list(dict.fromkeys(key.rpartition(".")[0] for key in keys))
            parts.append(f"{WORDS[status]} in {', '.join(tables)}")
        basis = f"an estimate with {'; '.join(parts)}" if parts else "an estimate from measured and documented values"
        return f"{basis}; {self.launch_note}"

    @property
    def launch_note(self) -> str:
        """Source of the launch time in words."""
        if self.launch.table != LAUNCH:
            return f"launch is the fixed time of the vendor's kernel, {self.launch.table}"
        source = f"launch by the chip's launch table, since kernels.{self.plan.operator.name} has no fixed time"
        if self.launch.tiling_us:
            source += ", with a guess for the reading of the tiling data"
        return source

    def waits(self, phase: str) -> dict[str, float]:
        """Return cause -> share of the waiting of the busiest pipe of a phase on its slowest core, largest first.

        Of a long phase, the causes between the first and the last instruction of the pipe are those of a sample of
        tiles at the start, in the middle and at the end; the work of other pipes after its last one is exact.
        """
        plan, phase_time = self._plan_of(phase), self.phase(phase)
        pipe, busy = phase_time.longest
        core = next((leader for cycles, leader, _ in plan.shares if cycles == plan.cycles), 0)
        causes: dict[str, int] = {}
        last, closing = 0, ""
        for event in phase_events(plan, core, widest([(plan, core)], SAMPLE)):
            if event.pipe == pipe:
                if event.waited_cycles:
                    cause = event.waits_for or "others"
                    causes[cause] = causes.get(cause, 0) + event.waited_cycles
                last = event.end_cycles
            elif event.end_cycles == phase_time.makespan_cycles:
                closing = f"{event.pipe} at the end"
        makespan, sampled = phase_time.makespan_cycles, sum(causes.values())
        idle, tail = makespan - busy, makespan - last
        if not idle:
            return {}
        out = {cause: (idle - tail) * waited / sampled / idle for cause, waited in causes.items()}
        if idle > tail and not sampled:
            out["others"] = (idle - tail) / idle
        if tail:
            out[closing] = tail / idle
        return dict(sorted(out.items(), key=lambda item: (-item[1], item[0])))

    def events(self, phase: str | None = None, core: int = 0, tiles: int | None = None) -> Iterator[Event]:
        """Yield the events of one core, of all phases or one, phase after phase in program order.

        With `tiles`, only that many tiles of every loop at its start, in the steady state of its middle and at its end,
        and its tail. Raises KeyError for a phase that the plan does not have.
        """
        number = 0
        for planned in self.plan.phases if phase is None else [self._plan_of(phase)]:
            for event in phase_events(planned, core, tiles, number):
                yield event
                number = event.number + 1

    def phase(self, name: str) -> PhaseTime:
        """Return the time of a phase. Raises KeyError."""
        return next(p for p in self.phases if p.name == self._plan_of(name).phase.name)

    def to_json(self) -> dict[str, Any]:
        """Return all results as plain data, under the names of the command line's --json."""
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
        for planned in self.plan.phases:
            if planned.phase.name == name:
                return planned
        raise KeyError(f"no phase {name!r}; there are: {', '.join(p.phase.name for p in self.plan.phases)}")


@checked
def simulate(plan: Plan) -> Timeline:
    """Return the timeline of a plan: exact under the chip's prices, whatever the number of tiles.

    A phase takes the cycles of its slowest core at the clock of its cores. An operator with an entry in the chip's
    table of the vendor's kernels has that fixed time, which includes the launch; others have the chip's launch and, if
    their size is known, the reading of the tiling data.
    """
    return timeline_of(plan)


def timeline_of(plan: Plan) -> Timeline:
    """Return the timeline of a plan."""
    chip = plan.chip
    launch = launches(plan)
    start_us, sync_us, phases = 0.0, 0.0, []
    for i, planned in enumerate(plan.phases):
        if i < len(launch.each_us):
            start_us += launch.each_us[i]
        else:
            start_us += chip.launch.sync_us
            sync_us += chip.launch.sync_us
        phases.append(_phase_time(planned, chip, start_us))
        start_us += phases[-1].time_us
    return Timeline(plan, tuple(phases), launch, sync_us)


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
        chip_cores=chip.cores.of(kind),
        waves=max((waves(nest) for nest, _, _ in plan.nests), default=0),
        read_bytes=plan.traffic.read_bytes,
        write_bytes=plan.traffic.written_bytes,
    )


def waves(nest: Nest) -> int:
    """Return the tiles of split loops that a nest runs one after another, of the loop with the most."""
    longest: dict[Loop, int] = {}
    for item in nest:
        if isinstance(item, TileRun):
            inner = waves(item.body) if not is_pattern(item) else 1
            tiles = trips((item,), item.loop) if item.loop.split else 1
            longest[item.loop] = longest.get(item.loop, 0) + tiles * inner if item.loop.split else max(inner, 1)
    return max(longest.values(), default=1)


def _percent(part: float, total: float) -> str:
    return f"{part / total:.0%}" if total else "0%"
