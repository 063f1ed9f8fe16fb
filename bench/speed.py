"""Times of answers: check, plan, simulate and run, imports and the command line.

`python -m bench.speed` prints medians, and each as a multiple of another one from the same run: ratios depend on the
machine less than times. With `--before REV` (or a folder with another checkout) both versions are measured in turn and
their ratio is printed. Every round is a process of its own, so that it includes first calls.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import tilesim

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 3
REPEATS = 5
CHIP = "ascend950pr"
FEW, MANY = 1, 524_288
"""Tokens of the smallest and of the largest shape."""
SHAPES: Mapping[str, Callable[[int], dict[str, Any]]] = {
    "text_gated_residual_grad": lambda tokens: {"B": 1, "S": tokens, "C": 4, "H": 2560, "R": 320},
    "masked_causal_conv1d_backward": lambda tokens: {"S": tokens, "B": 1, "H": 4096, "W": 3},
    "glu_backward": lambda tokens: {"self": (tokens, 8192)},
}
SMALL: Mapping[str, dict[str, Any]] = {
    "text_gated_residual_grad": {"B": 1, "S": 64, "C": 4, "H": 256, "R": 32},
    "glu_backward": {"self": (512, 4096)},
}
"""Shapes that are executed."""
STARTS: Mapping[str, Sequence[str]] = {
    "python": ("-c", "pass"),
    "import tilesim": ("-c", "import tilesim"),
    "import tilesim, use plan": ("-c", "import tilesim; tilesim.plan"),
    "tilesim --version": ("-m", "tilesim", "--version"),
    "tilesim check": ("-m", "tilesim", "check", "glu_backward", "self=64x8192", "--chip", CHIP),
    "tilesim simulate": ("-m", "tilesim", "simulate", "glu_backward", "self=64x8192", "--chip", CHIP),
}

Times = dict[str, float]
"""Name of a measurement -> seconds."""


def measured() -> Times:
    """Return the times of one round in this process."""
    return dict([*_answers(), *_events(), *_executions(), *_starts()])


def _answers() -> Iterator[tuple[str, float]]:
    """Measure verdicts, plans and timelines of few and many tokens."""
    chip = tilesim.load_chip(CHIP)
    for op, shape in SHAPES.items():
        start = time.perf_counter()
        tilesim.check(op, shape(FEW), chip=chip, dtype="bfloat16")
        yield f"{op}: check, the first", time.perf_counter() - start
        for tokens in (FEW, MANY):
            answer, label = partial(_answer, op, shape(tokens), chip), f"{tokens:,} tokens"
            yield f"{op}: check, {label}", _median(partial(answer, tilesim.check))
            yield f"{op}: plan, {label}", _median(partial(answer, tilesim.plan))
            yield f"{op}: simulate, {label}", _median(partial(tilesim.simulate, answer(tilesim.plan)))


def _answer(op: str, given: Mapping[str, Any], chip: Any, command: Callable[..., Any]) -> Any:
    """Return the answer of check or plan."""
    return command(op, given, chip=chip, dtype="bfloat16")


def _events() -> Iterator[tuple[str, float]]:
    """Measure a plan with its timeline, and one core instruction by instruction."""
    plan = partial(_answer, "glu_backward", {"self": (65_536, 8192)}, tilesim.load_chip(CHIP), tilesim.plan)
    yield "schedule: by powers", _median(lambda: tilesim.simulate(plan()), 3)
    timeline = tilesim.simulate(plan())
    yield "schedule: by instruction", _median(lambda: sum(1 for _ in timeline.events()), 1)


def _executions() -> Iterator[tuple[str, float]]:
    """Measure values tile by tile, and from the formula in float64."""
    from tilesim.execution.inputs import random_inputs  # noqa: PLC0415 - numpy counts in the first answers

    for op, given in SMALL.items():
        plan = tilesim.plan(op, given, chip=CHIP, dtype="float16")
        inputs = random_inputs(plan.operator, plan.call, 0, chip=plan.chip)
        exact = {name: array.astype("float64") for name, array in inputs.items()}
        if plan.operator.reference is not None:
            form = partial(plan.operator.reference, exact, {**plan.call.dims, **plan.call.attributes})
            yield f"{op}: reference", _median(form, 3)
        yield f"{op}: run", _median(partial(tilesim.run, plan, inputs), 3)


def _starts() -> Iterator[tuple[str, float]]:
    """Measure processes from start to end."""
    for name, words in STARTS.items():
        yield f"start: {name}", _median(partial(_process, words), 1)


def _process(words: Sequence[str]) -> None:
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)


def _median(work: Callable[[], object], repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return median(times)


def base_of(name: str) -> str:
    """Return the time that a time is divided by: few tokens, the formula, the powers, a bare interpreter."""
    op, _, answer = name.partition(": ")
    if op == "start":
        return "start: python"
    if op == "schedule":
        return "schedule: by powers"
    if answer == "run":
        return f"{op}: reference"
    kind = answer.partition(",")[0]
    return f"{op}: {kind}, {FEW:,} tokens" if kind in ("check", "plan", "simulate") else ""


def rounds(trees: Sequence[Path], count: int) -> list[Times]:
    """Return the medians of `count` rounds of every tree, the trees in turn."""
    times_of: list[list[Times]] = [[] for _ in trees]
    for number in range(count):
        order = list(zip(trees, times_of, strict=True))
        for tree, times in order if number % 2 == 0 else reversed(order):
            environment = os.environ | {"PYTHONPATH": str(tree)}
            process = subprocess.run(
                [sys.executable, __file__, "--once"],
                env=environment,
                cwd=tree,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            times.append(json.loads(process.stdout))
    return [{name: median(each[name] for each in times) for name in times[0]} for times in times_of]


def checkout(before: str, place: Path) -> Path:
    """Return a folder with another version: `before` itself, or a revision of this repository, unpacked in `place`."""
    if Path(before).is_dir():
        return Path(before).resolve()
    archived = subprocess.run(["git", "archive", before], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        archive.extractall(place, filter="data")
    return place


def table(after: Times, before: Times | None) -> str:
    """Return the table: every time, as a multiple of its base, and of the time before."""
    lines = [
        f"{'':52} {'median ms':>10} {'times base':>11}" + (f" {'before ms':>10} {'after/before':>13}" * bool(before))
    ]
    for name, seconds in after.items():
        base = base_of(name)
        ratio = f"{seconds / after[base]:.2f}" if base in after and base != name else ""
        text = f"{name:52} {seconds * 1e3:10.2f} {ratio:>11}"
        if before and name in before:
            text += f" {before[name] * 1e3:10.2f} {seconds / before[name]:13.2f}"
        lines.append(text.rstrip())
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.speed", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument(
        "--before", metavar="REV", help="a revision, or a folder with another checkout, to compare with"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="rounds of each version")
    parser.add_argument("--once", action="store_true", help="one round in this process, as JSON")
    given = parser.parse_args()
    if given.once:
        print(json.dumps(measured()))
        return
    with tempfile.TemporaryDirectory() as place:
        trees = [ROOT, *([checkout(given.before, Path(place))] if given.before else [])]
        after, *before = rounds(trees, given.rounds)
    print(table(after, before[0] if before else None))


if __name__ == "__main__":
    main()
