"""`tilesim ops`: list and show operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from tilesim.cli.console import TextColumn, emit, fields, heading, line, table
from tilesim.cli.group import EXIT_YES, Commands
from tilesim.cli.question import App, AsJson, OperatorName
from tilesim.operators.operator import Attribute, Dimension, Operator
from tilesim.operators.rules import rules_of
from tilesim.ops import load_operator, operators_shipped

app = App(name="ops", cls=Commands)


@app.callback(invoke_without_command=True, epilog="Example: tilesim ops")
def ops(ctx: typer.Context, as_json: AsJson = False) -> int:
    """List the operators with their dims, options, dtypes and products; `ops show OP` shows one in full."""
    if ctx.invoked_subcommand is not None:
        return EXIT_YES

    operators = [load_operator(name) for name in operators_shipped()]
    if as_json:
        emit([_to_json(op) for op in operators])
        return EXIT_YES
    for op in operators:
        line(f"{op.name}: {op.about}", "bold")
        fields(_facts(op))
        line()
    return EXIT_YES


@app.command(example="tilesim ops show glu_backward")
def show(op: OperatorName, as_json: AsJson = False) -> int:
    """Show an operator: dims with their ranges, tensors, attributes, and the rules of its document."""
    operator = load_operator(op)
    if as_json:
        emit(_to_json(operator))
        return EXIT_YES
    line(f"{operator.name}: {operator.about}", "bold")
    fields(_facts(operator))
    heading("dims")
    table(
        (
            TextColumn("dim"),
            TextColumn("range"),
            TextColumn("multiple of", number=True),
            TextColumn("default", number=True),
        ),
        [(d.name, _range(d), d.multiple_of, "" if d.default is None else d.default) for d in operator.dims],
    )
    heading("tensors")
    columns = (
        TextColumn("tensor"),
        TextColumn("role"),
        TextColumn("shape", prose=True),
        TextColumn("dtype"),
        TextColumn("with option"),
    )
    table(
        columns,
        [(t.name, t.role, f"[{', '.join(t.shape.split())}]", t.dtype or "DTYPE", t.option) for t in operator.tensors],
    )
    heading("rules, in the order of the checks")
    rows = [(str(i), r.name, r.status.name if r.status else "") for i, r in enumerate(operator.rules, 1)]
    table(
        (
            TextColumn("", number=True),
            TextColumn("rule", prose=True),
            TextColumn("status of a broken rule", prose=True),
        ),
        rows,
    )
    return EXIT_YES


def _to_json(op: Operator) -> dict[str, Any]:
    """Return an operator as plain data."""
    return {
        "name": op.name,
        "api": op.api,
        "about": op.about,
        "products": list(op.products),
        "dtypes": {family: list(names) for family, names in op.dtypes.items()},
        "dtype": op.dtype,
        "dims": [vars(d) for d in op.dims],
        "options": [{"name": o.name, "default": o.default} for o in op.options],
        "attributes": [{"name": a.name, "default": a.default, "dim": a.dim or None} for a in op.attributes],
        "tensors": [
            {
                "name": t.name,
                "shape": t.shape.split(),
                "role": t.role,
                "dtype": t.dtype or None,
                "option": t.option or None,
                "alias": t.alias or None,
            }
            for t in op.tensors
        ],
        "rules": [
            {"name": r.name, "parameter": r.parameter, "status": r.status.name if r.status else None}
            for r in rules_of(op)[1:]
        ],
    }


def _facts(op: Operator) -> Iterator[tuple[str, str]]:
    if op.api:
        yield "api", op.api
    yield "dims", ", ".join(_dim(d) for d in op.dims)
    if op.options:
        yield "options", ", ".join(f"{o.name} ({'on' if o.default else 'off'})" for o in op.options)
    if op.attributes:
        yield "attributes", ", ".join(_attribute(a) for a in op.attributes)
    families: dict[tuple[str, ...], list[str]] = {}
    for family, names in op.dtypes.items():
        families.setdefault(tuple(names), []).append(family)
    for names, members in families.items():
        yield "dtypes", f"{', '.join(names)} on {', '.join(members)}"


def _dim(d: Dimension) -> str:
    step = f" in steps of {d.multiple_of}" if d.multiple_of > 1 else ""
    return f"{d.name} {_range(d)}{step}"


def _range(d: Dimension) -> str:
    return f"{d.least}..{'' if d.most is None else d.most}"


def _attribute(a: Attribute) -> str:
    return f"{a.name} = {a.dim or a.default}" if a.dim or a.default is not None else a.name
