"""`tilesim simulate`: predicted time and its bounds."""

from __future__ import annotations

from collections.abc import Iterator

from tilesim.cli.console import TextColumn, emit, fields, heading, line, percent, table
from tilesim.cli.planning import fusing_text, known_accuracy, plan_answer
from tilesim.cli.question import App, AsJson, PlanQuestion
from tilesim.cli.verdict import overridden_text, subject_text
from tilesim.simulation.timeline import Timeline, timeline_of

app = App()


@app.command(example="tilesim simulate glu_backward self=2x4096x8192 --chip ascend950pr")
def simulate(question: PlanQuestion, as_json: AsJson = False) -> int:
    """Predict cycles and time by phase and pipe, the bound of each phase, and the accuracy."""
    answer = plan_answer(question, as_json=as_json)
    timeline = timeline_of(answer.plan)
    if as_json:
        emit(timeline.to_json())
    else:
        show(timeline)
    return answer.code


def show(timeline: Timeline) -> None:
    """Print a timeline as text."""
    line(f"{timeline.cycles:,} cycles, {timeline.time_us:,.1f} us: {subject_text(timeline.plan.verdict)}", "bold")
    fields(_facts(timeline))
    for kind in dict.fromkeys(phase.core_kind for phase in timeline.phases):
        heading(f"cycles of the slowest {kind} core, by phase and pipe")
        _phases(timeline, kind)


def _facts(timeline: Timeline) -> Iterator[tuple[str, str]]:
    yield "bottleneck", timeline.bottleneck
    yield "launch, sync", f"{timeline.launch_us:,.1f} us, {timeline.sync_us:,.1f} us ({timeline.launch.source})"
    fusing = fusing_text(timeline.plan)
    if fusing:
        yield "fusing", fusing
    yield "accuracy", known_accuracy(timeline.plan)
    for status, keys in timeline.rests_on.items():
        if status != "override":
            tables = ", ".join(dict.fromkeys(key.rpartition(".")[0] for key in keys))
            yield {"guess": "guesses in"}.get(status, f"{status} in"), tables
    if timeline.plan.chip.overridden:
        yield "set by hand", overridden_text(timeline.plan.verdict)


def _phases(timeline: Timeline, kind: str) -> None:
    """Print the phases of one kind of cores, each with its number."""
    phases = [(place, phase) for place, phase in enumerate(timeline.phases, 1) if phase.core_kind == kind]
    pipes = list(dict.fromkeys(pipe for _, phase in phases for pipe in phase.busy_cycles))
    columns = [
        TextColumn("phase", prose=True),
        TextColumn("us", number=True),
        TextColumn("cycles", number=True),
        *(TextColumn(pipe, number=True) for pipe in pipes),
        TextColumn("idle", number=True),
        TextColumn("bound by", prose=True),
    ]
    rows = [
        (
            f"{place} {phase.name}" if len(timeline.phases) > 1 else phase.name,
            f"{phase.time_us:,.1f}",
            phase.cycles,
            *(phase.busy_cycles.get(pipe, 0) for pipe in pipes),
            percent(phase.idle_share),
            phase.bound.partition(":")[0],
        )
        for place, phase in phases
    ]
    table(columns, rows)
