"""Graphs: every instruction is a stage, every value an edge, and every format can be read back."""

import json
import xml.etree.ElementTree as ET

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorded import CASES, RandomProgram, kernel, planned, price, tensor
from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput
from tilesim.files import write_text
from tilesim.planning.plan import plan
from tilesim.planning.stage_graph import KINDS, graph
from tilesim.render.graph_files import FORMATS, dot, graphml, node_link, write_graph
from tilesim.render.graph_svg import svg

CHIP = load_chip("ascend950pr")
COSTS = {"xIn": 10, "adds": 4, "mul": 4, "muls": 2, "row_sum": 3, "out": 6, "between": 6, "betweenIn": 10, "wIn": 5}
FIELDS = {
    *("kind", "phase", "core_kind", "op", "pipe", "memory", "name", "shape", "dtype"),
    *("cycles", "bytes", "times", "loop", "tile", "where"),
}
every_case = pytest.mark.parametrize(("op", "dims", "dtype"), CASES, ids=[op for op, *_ in CASES])


def two_phases(*, doubled=True):
    """x -> between -> out in two phases; the second also reads w, which stays on chip."""
    x, w, out = tensor("x", 6, 8), tensor("w", 8), tensor("out", 6, 8, role="output")
    made = kernel(x, w, out)
    between = made.workspace("between", (6, 8), "float32")
    with made.vector("first") as p:
        for i in p.loop("i", 6):
            value = p.adds(p.load(x[i.start], name="xIn"), 1.0, name="sum")
            if doubled:
                value = p.muls(value, 2.0, out=value)
            p.store(value, between[i.start])
    with made.vector("second") as p:
        resident = p.load(w, name="wIn", slots=1)
        for i in p.loop("i", 6):
            p.store(p.mul(p.load(between[i.start], name="betweenIn"), resident), out[i.start])
    return planned(made, CHIP, price(COSTS))


def stages(made):
    return [node for node, fields in made.nodes(data=True) if fields["phase"]]


def test_a_stage_for_every_instruction_and_a_node_for_every_input_and_output():
    made = graph(two_phases())
    kinds = [fields["kind"] for _, fields in made.nodes(data=True)]
    assert sorted(kinds) == sorted(
        [
            "input",
            "copy-in",
            "compute",
            "compute",
            "copy-out",
            "input",
            "copy-in",
            "copy-in",
            "compute",
            "copy-out",
            "output",
        ],
    )
    assert set(kinds) <= set(KINDS)
    assert all(set(fields) == FIELDS for _, fields in made.nodes(data=True))


def test_the_fields_of_a_stage():
    (fields,) = (f for _, f in graph(two_phases()).nodes(data=True) if f["name"] == "betweenIn")
    assert fields.pop("where").startswith("test_stage_graph.py:")
    assert fields == {
        "kind": "copy-in",
        "phase": "second",
        "core_kind": "vector",
        "op": "copy",
        "pipe": "mte2",
        "memory": "ub",
        "name": "betweenIn",
        "shape": "8",
        "dtype": "float32",
        "cycles": 10,
        "bytes": 32,
        "times": 6,
        "loop": "i",
        "tile": "",
    }


def test_edges_are_buffers_tensors_and_what_passes_between_phases():
    made = graph(two_phases())
    seen = {(made.nodes[a]["name"], made.nodes[b]["name"], e["kind"], e["name"]) for a, b, e in made.edges(data=True)}
    assert seen == {
        ("x", "xIn", "data", "x"),
        ("xIn", "sum", "data", "xIn"),
        ("sum", "sum", "data", "sum"),
        ("sum", "between", "data", "sum"),
        ("between", "betweenIn", "workspace", "between"),
        ("w", "wIn", "data", "w"),
        ("wIn", "mul_betweenIn", "data", "wIn"),
        ("betweenIn", "mul_betweenIn", "data", "betweenIn"),
        ("mul_betweenIn", "out", "data", "mul_betweenIn"),
        ("out", "out", "data", "out"),
    }
    assert all(fields["bytes"] == 32 for *_, fields in made.edges(data=True))


def test_removing_an_instruction_changes_the_graph():
    whole, less = graph(two_phases()), graph(two_phases(doubled=False))
    assert len(stages(whole)) == len(stages(less)) + 1
    assert whole.number_of_edges() == less.number_of_edges() + 1


def test_tiles_are_told_apart():
    made = graph(two_phases(), tiles=3)
    assert len(stages(made)) == 3 * 4 + 1 + 3 * 3
    assert {f["tile"] for _, f in made.nodes(data=True)} == {"", "i 0", "i 1", "i 2"}
    slots = [(made.nodes[a], made.nodes[b]) for a, b, e in made.edges(data=True) if e["kind"] == "slot"]
    # the load of tile 2 takes the slot of tile 0, which the addition there has read
    assert ("i 0", "sum", "i 2", "xIn") in {(a["tile"], a["name"], b["tile"], b["name"]) for a, b in slots}
    assert nx.is_directed_acyclic_graph(made)


def test_a_tensor_that_two_phases_rewrite_comes_from_the_last():
    x, out = tensor("x", 6, 8), tensor("out", 6, 8, role="output")
    made = kernel(x, out)
    between = made.workspace("between", (6, 8), "float32")
    with made.vector("write") as p:
        p.store(p.load(x, name="xIn"), between)
    with made.vector("rewrite") as p:
        p.store(p.adds(p.load(between), 1.0), between)
    with made.vector("read") as p:
        p.store(p.load(between), out)
    done = graph(planned(made, CHIP, lambda _: 1))
    crossing = {
        (done.nodes[a]["phase"], done.nodes[b]["phase"])
        for a, b, e in done.edges(data=True)
        if e["kind"] == "workspace"
    }
    assert crossing == {("write", "rewrite"), ("rewrite", "read")}


@settings(max_examples=100)
@given(st.integers(0, 2**48), st.integers(0, 2))
def test_no_cycles(seed, tiles):
    program = RandomProgram(seed)
    program.phase.kernel.phases.append(program.phase)
    made = graph(planned(program.phase.kernel, CHIP, program.cycles), tiles or None)
    assert nx.is_directed_acyclic_graph(made)
    if not tiles:
        assert len(stages(made)) == len(program.instructions)


@every_case
@pytest.mark.parametrize("tiles", [None, 1, 2])
def test_of_an_operator(op, dims, dtype, tiles):
    planned_call = plan(op, dims, chip=CHIP, dtype=dtype)
    made = graph(planned_call, tiles)
    assert nx.is_directed_acyclic_graph(made)
    assert not list(nx.isolates(made))
    assert {f["phase"] for _, f in made.nodes(data=True)} == {"", *(p.phase.name for p in planned_call.phases)}
    outputs = {f["name"] for _, f in made.nodes(data=True) if f["kind"] == "output"}
    assert outputs == {n for n, t in planned_call.kernel.tensors.items() if t is not None and t.role == "output"}
    for node, fields in made.nodes(data=True):
        if fields["kind"] == "output":
            assert nx.ancestors(made, node) & {n for n, f in made.nodes(data=True) if f["kind"] == "input"}
    if tiles is None:
        assert len(stages(made)) == sum(len(list(p.phase.instructions())) for p in planned_call.phases)


# -------------------------------------------------------------------- files
def test_graphml_reads_back():
    made = graph(two_phases())
    read = nx.parse_graphml(graphml(made))
    assert dict(read.nodes(data=True)) == dict(made.nodes(data=True))
    assert {(a, b): e for a, b, e in read.edges(data=True)} == {(a, b): e for a, b, e in made.edges(data=True)}


def test_json_reads_back():
    made = graph(two_phases())
    data = json.loads(node_link(made))
    assert {node.pop("id"): node for node in data["nodes"]} == dict(made.nodes(data=True))
    assert len(data["edges"]) == made.number_of_edges()


def test_dot_has_a_cluster_for_every_phase():
    text = dot(graph(two_phases()))
    assert text.count("subgraph cluster_") == 2
    assert text.count("->") == graph(two_phases()).number_of_edges()
    assert text.count("{") == text.count("}")


@every_case
@pytest.mark.parametrize("tiles", [None, 2])
def test_the_drawing_is_xml_with_a_box_for_every_stage_and_nothing_outside(op, dims, dtype, tiles):
    made = graph(plan(op, dims, chip=CHIP, dtype=dtype), tiles)
    root = ET.fromstring(svg(made))
    space = "{http://www.w3.org/2000/svg}"
    boxes = [group for group in root.iter(f"{space}g") if group.get("class") == "stage"]
    assert len(boxes) == len(stages(made))
    width, height = float(root.get("width")), float(root.get("height"))
    corners = []
    for rect in root.iter(f"{space}rect"):
        x, y, w, h = (float(rect.get(k, 0)) for k in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
    for box in boxes:
        rect = box.find(f"{space}rect")
        corners.append((rect.get("x"), rect.get("y")))
    assert len(set(corners)) == len(corners)


@pytest.mark.parametrize("ending", FORMATS)
def test_files_are_the_same_every_time(tmp_path, ending):
    first, second = (write_graph(graph(two_phases()), tmp_path / f"{n}.{ending}") for n in "ab")
    assert first.read_bytes() == second.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"a.{ending}", f"b.{ending}"]


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"must end in one of \.graphml, \.json, \.dot, \.svg; did you mean 'svg'\?"):
        write_graph(graph(two_phases()), tmp_path / "graph.svgg")
    assert not list(tmp_path.iterdir())


def test_what_was_there_stays_if_writing_fails(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["graph.json"]


def test_a_directory_that_is_not_there(tmp_path):
    with pytest.raises(BadInput, match="cannot be written: no such file or directory"):
        write_graph(graph(two_phases()), tmp_path / "missing" / "graph.json")


def test_the_drawing_says_where_tensors_go():
    """Only the last tile of a store is what another phase waits for; the others are workspace too, not output."""
    root = ET.fromstring(svg(graph(two_phases(), tiles=3)))
    titles = [t.text for t in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles.count("between: to second") == 1
    assert titles.count("between: workspace") == 2
    assert titles.count("between: from first") == 3
    assert titles.count("out: output") == 3
    assert "slot of xIn" in titles
