"""Printed expressions, run: many at once in Python, JavaScript and C++, for many sets of facts."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilesim.operators.conditions import Condition, Kind
from tilesim.operators.printer import CPP, JAVASCRIPT, PYTHON, Expression, function, parameters, runtime
from tilesim.program.sizes import Size


@dataclass
class Group:
    """Expressions, and the sets of facts to evaluate each of them for."""

    expressions: Sequence[Expression]
    facts: Sequence[Mapping[str, Any]]


MISSING = {"javascript": "node", "cpp": "g++"}
"""The program that runs or compiles a language."""


def runs(language: str) -> bool:
    return language == "python" or shutil.which(MISSING[language]) is not None


def evaluated(group: Group) -> list[list[Any]]:
    """The values of every expression, a list for each set of facts."""
    return [[value_of(e, facts) for e in group.expressions] for facts in group.facts]


def value_of(expression: Expression, facts: Mapping[str, Any]) -> Any:
    return bool(expression.holds(facts)) if isinstance(expression, Condition) else expression.bind(facts)


def as_printed(groups: Sequence[Group], language: str, place: Path) -> list[list[list[Any]]]:
    """The same for all groups by source text of a language, in one run."""
    return {"python": in_python, "javascript": in_javascript, "cpp": in_cpp}[language](groups, place)


def in_python(groups: Sequence[Group], _: Path) -> list[list[list[Any]]]:
    text, calls = runtime(PYTHON), []
    for g, group in enumerate(groups):
        for e, expression in enumerate(group.expressions):
            text += function(f"f_{g}_{e}", expression, PYTHON)
        calls.append([[fact.name for fact in parameters(e)] for e in group.expressions])
    names: dict[str, Any] = {}
    exec(compile(text, "printed.py", "exec"), names)
    return [
        [
            [names[f"f_{g}_{e}"](*(facts.get(name) for name in taken)) for e, taken in enumerate(calls[g])]
            for facts in group.facts
        ]
        for g, group in enumerate(groups)
    ]


def in_javascript(groups: Sequence[Group], place: Path) -> list[list[list[Any]]]:
    text = runtime(JAVASCRIPT)
    tables = []
    for g, group in enumerate(groups):
        for e, expression in enumerate(group.expressions):
            text += function(f"f_{g}_{e}", expression, JAVASCRIPT)
        taken = [", ".join(f"f[{json.dumps(p.name)}]" for p in parameters(e)) for e in group.expressions]
        tables.append(f"[{', '.join(f'(f) => f_{g}_{e}({names})' for e, names in enumerate(taken))}]")
    data = [[_known(group, facts) for facts in group.facts] for group in groups]
    (place / "data.json").write_text(json.dumps(data))
    text += f"""
const tables = [{", ".join(tables)}];
const typed = {{
  number: BigInt, shape: (axes) => axes.map(BigInt), real: Number, word: (x) => x, flag: (x) => x,
}};
const data = JSON.parse(require("fs").readFileSync(process.argv[2], "utf8"));
const out = data.map((sets, g) => sets.map((set) => {{
  const f = Object.fromEntries(set.map(([name, kind, value]) => [name, typed[kind](value)]));
  return tables[g].map((h) => h(f)).map((x) => (typeof x === "boolean" ? x : String(x)));
}}));
console.log(JSON.stringify(out));
"""
    (place / "printed.js").write_text(text)
    done = subprocess.run(
        ["node", place / "printed.js", place / "data.json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return _typed(json.loads(done.stdout), groups)


def in_cpp(groups: Sequence[Group], place: Path) -> list[list[list[Any]]]:
    text = (
        runtime(CPP)
        + """
#include <iostream>
#include <map>
#include <sstream>
struct Facts {
  std::map<std::string, Int> number; std::map<std::string, double> real; std::map<std::string, Word> word;
  std::map<std::string, bool> flag; std::map<std::string, Shape> shape;
};
void show(std::ostream& out, bool x) { out << x; }
void show(std::ostream& out, double x) { out.precision(17); out << x; }
void show(std::ostream& out, const Int& x) {
  if (x.value < 0) out << '-';
  std::string digits;
  for (__int128 rest = x.value < 0 ? -x.value : x.value; rest || digits.empty(); rest /= 10)
    digits.insert(digits.begin(), '0' + static_cast<int>(rest % 10));
  out << digits;
}
"""
    )
    body = ""
    for g, group in enumerate(groups):
        body += f"  if (group == {g}) {{\n"
        for e, expression in enumerate(group.expressions):
            text += function(f"f_{g}_{e}", expression, CPP)
            taken = ", ".join(f"f.{p.kind.value}[{json.dumps(p.name)}]" for p in parameters(expression))
            body += f"    show(out, f_{g}_{e}({taken})); out << ' ';\n"
        body += "  }\n"
    text += f"void all(int group, Facts& f, std::ostream& out) {{\n{body}}}\n"
    text += """
int main() {
  std::string line, kind, name, value;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    Facts f;
    int group;
    words >> group;
    while (words >> kind >> name) {
      if (kind == "shape") {
        int axes;
        words >> axes;
        std::vector<Int> sizes;
        while (axes-- && words >> value) sizes.push_back(integer(value.c_str()));
        f.shape[name] = Shape(sizes);
        continue;
      }
      words >> value;
      if (kind == "number") f.number[name] = integer(value.c_str());
      if (kind == "real") f.real[name] = std::stod(value);
      if (kind == "word") f.word[name] = Word(value.c_str());
      if (kind == "flag") f.flag[name] = value == "1";
    }
    all(group, f, std::cout);
    std::cout << '\\n';
  }
}
"""
    (place / "printed.cpp").write_text(text)
    compiled = ["g++", "-std=c++17", "-O0", "-Wall", "-Werror", place / "printed.cpp", "-o", place / "printed"]
    done = subprocess.run(compiled, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    lines = [
        f"{g} {' '.join(_word(*fact) for fact in _known(group, facts))}"
        for g, group in enumerate(groups)
        for facts in group.facts
    ]
    done = subprocess.run([place / "printed"], input="\n".join(lines), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answers = iter(done.stdout.splitlines())
    return _typed([[next(answers).split() for _ in group.facts] for group in groups], groups)


def _known(group: Group, facts: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """(name, kind, value) of the facts that are known, whole numbers as text."""
    out = []
    for name, kind in dict.fromkeys(fact for e in group.expressions for fact in parameters(e)):
        if (value := facts.get(name)) is not None:
            # An attribute that is no whole number is compared with whole numbers only, as its floor is.
            text = {
                Kind.NUMBER: lambda x: str(math.floor(x)),
                Kind.SHAPE: lambda axes: [str(size) for size in axes],
            }.get(kind, lambda x: x)
            out.append((name, kind.value, text(value)))
    return out


def _word(name: str, kind: str, value: Any) -> str:
    if kind == "shape":
        return " ".join([kind, name, str(len(value)), *value])
    return f"{kind} {name} {int(value) if kind == 'flag' else value}"


def _typed(answers: list[list[list[Any]]], groups: Sequence[Group]) -> list[list[list[Any]]]:
    """The answers as Python's types."""

    def typed(expression: Expression, value: Any) -> Any:
        if isinstance(expression, Condition):
            return value in (True, "1")
        return int(value) if isinstance(expression, Size) else float(value)

    return [
        [[typed(e, v) for e, v in zip(group.expressions, row, strict=True)] for row in rows]
        for group, rows in zip(groups, answers, strict=True)
    ]
