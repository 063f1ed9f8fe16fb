"""`tilesim run`: the values, computed tile by tile, and their difference from a reference in float64."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tilesim.cli.console import TextColumn, console, emit, heading, line, table
from tilesim.cli.group import EXIT_NO
from tilesim.cli.planning import known_accuracy, plan_answer
from tilesim.cli.question import App, AsJson, PlanQuestion
from tilesim.cli.verdict import refusals_answered, subject_text
from tilesim.errors import BadInput
from tilesim.execution.inputs import agreed, load_inputs, random_inputs
from tilesim.execution.interpreter import Progress
from tilesim.execution.run import Run
from tilesim.execution.run import run as executed
from tilesim.execution.tensor_files import read_arrays, save_outputs
from tilesim.execution.verify import verify
from tilesim.operators.binding import parse
from tilesim.operators.reference import Difference
from tilesim.operators.shapes import shape_text
from tilesim.ops import load_operator

app = App()


@app.command(example="tilesim run glu_backward self=8x64x128 --chip ascend950pr --random 0 --verify")
def run(
    question: PlanQuestion,
    inputs: Annotated[
        Path | None,
        typer.Option("--inputs", metavar="FILE", help="Inputs: .npz, .safetensors or a folder of .npy files."),
    ] = None,
    random: Annotated[int | None, typer.Option("--random", metavar="SEED", help="Random inputs from a seed.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PATH", help="Write the outputs: .npz, .safetensors or a folder.")
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", metavar="", help="Compare with the reference in float64; exit code 1 beyond the tolerance."
        ),
    ] = False,
    threads: Annotated[int, typer.Option("--threads", metavar="N", help="Cores of the chip to run at once.")] = 1,
    as_json: AsJson = False,
) -> int:
    """Compute the outputs tile by tile as the chip would; with --inputs, the file sets shapes, dtype and options."""
    _refuse(inputs, random, out, threads)
    given = _given(question, inputs) if inputs is not None else None
    # `given` has the words already, compared with the file.
    answer = plan_answer(replace(question, words=None) if given else question, given, as_json=as_json)
    plan = answer.plan
    if verify and plan.operator.reference is None:
        raise BadInput(plan.operator.name, ["there is no reference to --verify against"])
    if inputs is not None:
        arrays = load_inputs(inputs, plan.operator, plan.call)
    else:
        arrays = random_inputs(plan.operator, plan.call, random or 0, chip=plan.chip)
    with refusals_answered(as_json=as_json), _progress() as progress:
        done = executed(plan, arrays, threads=threads, progress=progress)
    differences = _differences(done, arrays) if verify else {}
    if out is not None:
        save_outputs(out, done.outputs)
    if as_json:
        emit(_to_json(done, differences, out))
    else:
        _show(done, differences, out)
    return answer.code if all(difference.ok for difference in differences.values()) else EXIT_NO


def _refuse(inputs: Path | None, random: int | None, out: Path | None, threads: int) -> None:
    """Raise BadInput for options that do not go together, before anything is computed."""
    problems = []
    if (inputs is None) == (random is None):
        problems.append("give either --inputs FILE or --random SEED")
    if random is not None and random < 0:
        problems.append(f"--random {random} must be at least 0")
    if threads < 1:
        problems.append(f"--threads {threads} must be at least 1")
    if out is not None and not out.absolute().parent.is_dir():
        problems.append(f"{out} cannot be written: {out.parent} is not a directory")
    if problems:
        raise BadInput("run", problems)


def _given(question: PlanQuestion, inputs: Path) -> dict[str, Any]:
    """Return the values of the call from a file of inputs and the words. Raises BadInput for contradictions."""
    operator = load_operator(question.op)
    words, arrays = parse(operator, question.words or ()), read_arrays(inputs)
    try:
        return agreed(operator, arrays, words, question.dtype)
    except BadInput as error:
        raise BadInput(str(inputs), error.problems) from None


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Context with a function that moves a progress bar on stderr; None if stderr is not a terminal."""
    stderr = console(error=True)
    if not stderr.is_terminal:
        yield None
        return
    from rich.progress import Progress as Bar  # noqa: PLC0415 - rich loads where it is needed

    with Bar(console=stderr, transient=True) as bar:
        task = bar.add_task("")

        def move(phase: str, cores: int, total: int) -> None:
            bar.update(task, description=phase, completed=cores, total=total)

        yield move


def _differences(done: Run, inputs: Mapping[str, Any]) -> dict[str, Difference]:
    return {difference.output: difference for difference in verify(done, done.plan, inputs)}


def _to_json(done: Run, differences: Mapping[str, Difference], out: Path | None) -> dict[str, Any]:
    plan, timeline = done.plan, done.timeline
    outputs = []
    for name, array in done.outputs.items():
        spec, difference = plan.call.spec(name), differences.get(name)
        entry: dict[str, Any] = {"name": name, "shape": list(array.shape), "dtype": spec.dtype if spec else None}
        if difference is not None:
            entry |= {"ok": difference.ok, "max_abs": difference.max_abs, "fro": difference.fro, "t": difference.t}
            entry |= {"allowed": str(difference.tolerance)}
        outputs.append(entry)
    return {
        "ok": plan.ok and all(difference.ok for difference in differences.values()),
        "operator": plan.operator.name,
        "chip": plan.chip.name,
        "dims": dict(plan.call.dims),
        "dtype": plan.call.dtype,
        "outputs": outputs,
        "verified": bool(differences),
        "out": None if out is None else str(out),
        "cycles": timeline.cycles,
        "time_us": round(timeline.time_us, 6),
        "accuracy": known_accuracy(plan),
    }


def _show(done: Run, differences: Mapping[str, Difference], out: Path | None) -> None:
    plan, timeline = done.plan, done.timeline
    wrong = [name for name, difference in differences.items() if not difference.ok]
    status = "run" if not differences else f"differs: {', '.join(wrong)}" if wrong else "run and verified"
    line(f"{status}: {subject_text(plan.verdict)}", "bold red" if wrong else "bold")
    heading("outputs" + (", against the reference in float64" if differences else ""))
    columns = [TextColumn("output"), TextColumn("shape"), TextColumn("dtype")]
    if differences:
        columns += [TextColumn(name, number=True) for name in ("max |e|", "fro", "t")]
        columns += [TextColumn("allowed", prose=True), TextColumn("")]
    rows = []
    for name, array in done.outputs.items():
        spec, difference = plan.call.spec(name), differences.get(name)
        row = [name, shape_text(array.shape), spec.dtype if spec else ""]
        if difference is not None:
            row += [f"{value:.2g}" for value in (difference.max_abs, difference.fro, difference.t)]
            row += [str(difference.tolerance), "ok" if difference.ok else "NO"]
        rows.append(row)
    table(columns, rows)
    line()
    trust = known_accuracy(plan)
    line(f"predicted: {timeline.cycles:,} cycles, {timeline.time_us:,.1f} us ({trust}); {timeline.bottleneck}")
    if out is not None:
        line(f"written to {out}")
