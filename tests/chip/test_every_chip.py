"""What must hold for every chip file; a new chip adds no test."""

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesim.chip.chip import Chip
from tilesim.chip.loading import chips_shipped, load_chip, schema_text
from tilesim.chip.tables import COPY_PATHS, COST_CLASSES, ON_CHIP, ChipTable
from tilesim.errors import BadChip

CHIPS = chips_shipped()
ROOT = Path(__file__).parents[2] / "chips"
DATA = {name: tomllib.loads((ROOT / f"{name}.toml").read_text(encoding="utf-8")) for name in CHIPS}
KEYS = load_chip("ascend950pr").keys()
PROVENANCE = ("source", "status")

every_chip = pytest.mark.parametrize("name", CHIPS)
every_key = pytest.mark.parametrize("key", KEYS)


def bad_copy(directory: Path, key: str, value: object, *, rename: str | None = None) -> Path:
    """A chip file that differs from ascend950pr in one key: another value, or another name."""
    data = json.loads(json.dumps(DATA["ascend950pr"]))
    *path, field = key.split(".")
    table = data
    for part in path:
        table = table[part]
    del table[field]
    table[rename or field] = value
    lines: list[str] = []
    write(data, "", lines)
    file = directory / "ascend950pr.toml"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def write(table: dict[str, object], prefix: str, lines: list[str]) -> None:
    """TOML of plain values first, then of tables."""
    lines += [
        f"{key if '.' not in key else json.dumps(key)} = {json.dumps(value)}"
        for key, value in table.items()
        if not isinstance(value, dict)
    ]
    for key, value in table.items():
        if isinstance(value, dict):
            lines.append(f"[{prefix}{key}]")
            write(value, f"{prefix}{key}.", lines)


def refusal(file: Path) -> BadChip:
    with pytest.raises(BadChip) as refused:
        load_chip(file)
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)
    return refused.value


def test_all_families_are_there():
    families = {load_chip(name).family for name in CHIPS}
    assert families == {"950", "a2", "a3", "inference", "inference-200i", "training"}


@every_chip
def test_it_loads_by_name_and_by_path(name):
    chip = load_chip(name)
    assert chip == load_chip(ROOT / f"{name}.toml") == load_chip(name.upper())
    assert chip.name == name
    assert chip.soc.lower() == name


@every_chip
def test_it_round_trips(name, tmp_path):
    chip = load_chip(name)
    file = tmp_path / f"{name}.toml"
    file.write_text(chip.to_toml(), encoding="utf-8")
    assert load_chip(file) == chip
    assert Chip.model_validate(chip.model_dump(by_alias=True)) == chip
    assert chip.to_toml() == (ROOT / f"{name}.toml").read_text(encoding="utf-8")


@every_chip
def test_every_table_says_where_its_figures_come_from(name):
    chip = load_chip(name)
    for figure in chip.figures():
        assert len(figure.source) > 3, figure
        assert figure.status in {"datasheet", "measured", "fitted", "guess", "platform"}
        assert chip.get(figure.key) == figure.value
    assert {figure.key for figure in chip.figures()} >= set(KEYS) - {key for key in KEYS if key.startswith("kernels.")}


@every_chip
def test_every_memory_path_and_cost_class_is_there(name):
    chip = load_chip(name)
    for space in ON_CHIP:
        memory = chip.memory.on_chip(space)
        assert memory.visible_bytes == memory.size_bytes - memory.reserved_bytes > 0
    for path in COPY_PATHS:
        copy = chip.copies.path(path)
        assert copy.peak_bytes_per_cycle <= 600
    for cost_class in COST_CLASSES:
        cost = chip.cost.of(cost_class)
        assert cost.cycles_per_vector_16bit >= cost.cycles_per_vector


@every_chip
def test_its_figures_make_sense_together(name):
    chip = load_chip(name)
    ub, gm, l2 = chip.memory.ub, chip.memory.gm, chip.memory.l2
    assert ub.bank_groups * ub.banks_per_group * ub.bank_bytes in {ub.size_bytes, 262144}
    assert gm.size_bytes > l2.size_bytes > l2.absorbed_write_bytes
    assert l2.read_bytes_per_s > gm.read_bytes_per_s
    assert ub.reserved_bytes == (256 if chip.family in {"a2", "a3"} else 0) == chip.memory.l1.reserved_bytes
    assert chip.workspace.system_bytes == (16 << 20 if chip.arch in {"2201", "3510"} else 2 << 20)


@pytest.mark.parametrize("family", ["950", "a2", "a3"])
def test_parts_with_the_same_core_have_the_same_vector_costs(family):
    chips = [load_chip(name) for name in CHIPS]
    costs = [
        {name: table.figures() for name, table in chip.tables().items() if name.startswith(("cost.", "cube"))}
        for chip in chips
        if chip.family == family
    ]
    assert all(cost == costs[0] for cost in costs)


@pytest.mark.parametrize(
    ("name", "cube", "vector", "ub_bytes", "hz"),
    [
        ("ascend950pr", 32, 64, 253952, 1_650_000_000),
        ("ascend910b1", 24, 48, 196352, 1_850_000_000),
        ("ascend910b2", 24, 48, 196352, 1_800_000_000),
        ("ascend910b3", 20, 40, 196352, 1_800_000_000),
        ("ascend910b4", 20, 40, 196352, 1_650_000_000),
        ("ascend910_9391", 24, 48, 196352, 1_850_000_000),
        ("ascend910_9362", 20, 40, 196352, 1_500_000_000),
        ("ascend310b1", 1, 1, 253952, 1_224_000_000),
        ("ascend310p3", 8, 8, 262144, 1_060_000_000),
        ("ascend910a", 32, 32, 262144, 1_000_000_000),
    ],
)
def test_known_figures(name, cube, vector, ub_bytes, hz):
    chip = load_chip(name)
    assert (chip.cores.cube, chip.cores.vector, chip.memory.ub.visible_bytes) == (cube, vector, ub_bytes)
    assert chip.clock.vector_hz == hz


def test_the_schema_is_fresh():
    assert (ROOT / "_schema.json").read_text(encoding="utf-8") == schema_text(), "say: make schema"


@every_chip
def test_the_schema_accepts_it(name):
    jsonschema.validate(DATA[name], json.loads(schema_text()))


def test_the_schema_refuses_what_loading_refuses():
    wrong = json.loads(json.dumps(DATA["ascend950pr"]))
    wrong["memory"]["ub"]["colour"] = 1
    with pytest.raises(jsonschema.ValidationError, match="colour"):
        jsonschema.validate(wrong, json.loads(schema_text()))


def test_every_key_is_explained_in_the_schema():
    for name, definition in json.loads(schema_text())["$defs"].items():
        for key, field in definition["properties"].items():
            assert field.get("description"), f"{name}.{key}"


@every_key
def test_a_wrong_type_is_refused(key, tmp_path):
    error = refusal(bad_copy(tmp_path, key, "many"))
    assert len(error.problems) == 1
    assert error.problems[0].startswith(f"{key} is 'many', must be a ")


@every_key
def test_a_negative_figure_is_refused(key, tmp_path):
    error = refusal(bad_copy(tmp_path, key, -1))
    assert len(error.problems) == 1
    assert error.problems[0].startswith(f"{key} is -1")
    assert "must be" in error.problems[0]


@every_key
def test_a_truth_value_is_no_number(key, tmp_path):
    assert refusal(bad_copy(tmp_path, key, value=True)).problems[0].startswith(f"{key} is True, must be a ")


@every_key
def test_a_misspelt_key_is_one_problem_with_a_hint(key, tmp_path):
    field = key.rpartition(".")[2]
    error = refusal(bad_copy(tmp_path, key, 1, rename=field[:-1]))
    problems = [problem for problem in error.problems if "guesses names" not in problem]
    assert problems == [f"{key[:-1]} is not a key of {key.rpartition('.')[0]}; did you mean {field!r}?"]


@every_key
def test_a_missing_key_is_named(key, tmp_path):
    error = refusal(bad_copy(tmp_path, key, 1, rename="zzzzzz"))
    assert (f"{key} is missing" in error.problems) is (key != "memory.gm.reserved_bytes")  # 0 where it is left out
    assert f"{key.rpartition('.')[0]}.zzzzzz is not a key of {key.rpartition('.')[0]}" in error.problems


@pytest.mark.parametrize(
    "table", [name for name in load_chip("ascend950pr").tables() if not name.startswith("kernels")]
)
@pytest.mark.parametrize("field", PROVENANCE)
def test_provenance_cannot_be_left_out(table, field, tmp_path):
    key = f"{table}.{field}"
    assert refusal(bad_copy(tmp_path, key, "x", rename="zzzzzz")).problems[-1] == f"{key} is missing"
    assert refusal(bad_copy(tmp_path, key, "")).problems[0].startswith(f"{key} is ''")


def test_a_whole_table_that_is_missing_is_one_problem(tmp_path):
    file = tmp_path / "x.toml"
    lines: list[str] = []
    write({key: value for key, value in DATA["ascend950pr"].items() if key != "clock"} | {"name": "x"}, "", lines)
    file.write_text("\n".join(lines), encoding="utf-8")
    assert refusal(file).problems == ("clock is missing",)


@given(key=st.sampled_from([key for key in KEYS if not key.startswith("kernels.")]), name=st.sampled_from(CHIPS))
def test_any_figure_can_be_overridden_and_nothing_else_changes(key, name):
    chip = load_chip(name)
    changed = chip.override({key: chip.get(key) + 1})
    if key in {f"memory.{space}.reserved_bytes" for space in ON_CHIP}:
        assert (
            changed.memory.on_chip(key.split(".")[1]).visible_bytes + 1
            == chip.memory.on_chip(key.split(".")[1]).visible_bytes
        )
    assert chip.diff(changed) == {key: (chip.get(key), chip.get(key) + 1)}


def test_provenance_fields_are_not_figures():
    assert set(PROVENANCE) <= set(ChipTable.model_fields)
    assert not any(key.endswith((".source", ".status", ".note", ".guesses")) for key in KEYS)


LIKE_910B2 = {
    "memory.gm.miss_cycles": 1.0,
    "copy.gm_ub.partial_burst_cycles": 1.0,
    "copy.gm_ub.unaligned_stretch": 1.0,
    "copy.ub_gm.partial_burst_cycles": 1.0,
    "copy.ub_gm.unaligned_stretch": 1.0,
}
FOLLOWS = {
    "ascend910b1": (
        "ascend910b2",
        LIKE_910B2
        | {"memory.gm.read_bytes_per_s": 1.8 / 1.75, "memory.gm.write_bytes_per_s": 1.8 / 1.75}
        | {"memory.l2.write_bytes_per_s": 1.0, "memory.l2.absorbed_write_bytes": 1.0},
    ),
    "ascend910b3": (
        "ascend910b2",
        LIKE_910B2
        | dict.fromkeys([f"memory.gm.{way}_bytes_per_s" for way in ("read", "write", "read_alone", "cube_read")], 1.0)
        | {"memory.l2.write_bytes_per_s": 1.0, "memory.l2.absorbed_write_bytes": 1.0},
    ),
    **{
        f"ascend{name}": ("ascend910b2", LIKE_910B2)
        for name in ("910b4", "910_9362", "910_9391", "910a", "310p3", "310b1")
    },
    "ascend950dt": (
        "ascend950pr",
        LIKE_910B2
        | {"memory.gm.read_bytes_per_s": 2.5, "memory.gm.write_bytes_per_s": 2.5}
        | dict.fromkeys([f"memory.l2.{key}" for key in ("write_bytes_per_s", "absorbed_write_bytes")], 1.0),
    ),
}
"""A chip, the one that its figures follow by their notes, and the factor of each: a fit of one moves the other, too."""
OF_THE_CACHE = ("l1_read_bytes_per_s", "write_bytes_per_s")
BY_THE_CACHE = ("ascend910b4", "ascend910_9362", "ascend910_9391", "ascend910a", "ascend310p3", "ascend310b1")
"""Chips whose cache has the proportions of 910B2's."""


@pytest.mark.parametrize("name", FOLLOWS)
def test_figures_that_follow_another_chip_are_what_they_say(name):
    other, factors = FOLLOWS[name]
    mine, theirs = load_chip(name), load_chip(other)
    for key, factor in factors.items():
        assert mine.get(key) == pytest.approx(factor * theirs.get(key), rel=0.002), key


@pytest.mark.parametrize("name", BY_THE_CACHE)
def test_caches_that_were_not_measured_have_the_proportions_of_one_that_was(name):
    mine, theirs = load_chip(name).memory.l2, load_chip("ascend910b2").memory.l2
    scale = mine.read_bytes_per_s / theirs.read_bytes_per_s
    for key in OF_THE_CACHE:
        assert getattr(mine, key) == pytest.approx(scale * getattr(theirs, key), rel=0.002), key
