"""Loading, overriding and importing chips."""

import os
import subprocess
import sys

import pytest

from tilesim.chip.loading import CHIPS_VARIABLE, chip_directories, chips_found, chips_shipped, import_chip, load_chip
from tilesim.errors import BadChip

INI = """[version]
SoC_version=Ascend910B4-1
Short_SoC_version=Ascend910B

[SoCInfo]
ai_core_cnt=20
cube_core_cnt=20
vector_core_cnt=40
memory_size=34359738368
l2_size=176160768

[AICoreSpec]
cube_freq=1500
l0_a_size=65536
l0_b_size=65536
l0_c_size=131072
l1_size=524288
ub_size=196608
ubblock_size=32

[AICoreMemoryRates]
l1_to_l0_a_rate=512
l2_read_rate=110

[DtypeMKN]
Default=16,16,16
"""

MESSY_INI = """\ufeff
; a chip of somebody's
# with notes

  [ VERSION ]
Short_SoC_version =  Ascend310P   ; the family
SoC_version="Ascend310P3"
this line says nothing
[socinfo]
\tAI_Core_Cnt   =   4\r
l2_size =
memory_size
vector_core_cnt = 7
[AICoreSpec]
ub_size = 0x20000   # 131072

[AICoreSpec]
UB_Size = 65536
[ending
"""


@pytest.fixture
def ini(tmp_path):
    def write(text: str, name: str = "Ascend.ini"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return write


def refusal(action) -> str:
    with pytest.raises(BadChip) as refused:
        action()
    assert refused.value.exit_code == 2
    return str(refused.value)


def test_an_unknown_name_is_refused_with_a_hint_and_the_list():
    message = refusal(lambda: load_chip("ascend910b33"))
    assert message.startswith(
        "chip: 'ascend910b33' is not a chip; did you mean 'ascend910b3'? there are: ascend310b1, "
    )
    assert all(name in message for name in chips_shipped())


def test_a_name_without_a_likeness_gets_the_list_alone():
    assert refusal(lambda: load_chip("zzz")).startswith("chip: 'zzz' is not a chip; there are: ascend310b1, ")


@pytest.mark.parametrize("source", ["nowhere/x.toml", "x.toml", "x.ini"])
def test_a_file_that_is_not_there_is_refused(source, tmp_path):
    path = str(tmp_path / source)
    assert refusal(lambda: load_chip(path)) == f"{path}: cannot be read: no such file or directory"


def test_a_directory_and_a_binary_are_refused(tmp_path):
    (tmp_path / "d.toml").mkdir()
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    assert "is a directory" in refusal(lambda: load_chip(tmp_path / "d.toml"))
    assert refusal(lambda: load_chip(tmp_path / "b.toml")).endswith("cannot be read: is not text in utf-8")


def test_what_is_not_toml_is_refused_with_the_line(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text("name = 'x'\n[cores\n", encoding="utf-8")
    assert "is not TOML: " in (message := refusal(lambda: load_chip(path)))
    assert "line 2" in message


def test_all_problems_come_at_once(tmp_path):
    path = tmp_path / "mine.toml"
    text = load_chip("ascend910b3").to_toml()
    text = text.replace("vector = 40", 'vector = "forty"').replace("bank_groups", "bankgroups")
    text = text.replace('family = "a2"', 'family = "inferense"').replace("size_bytes = 524288", "size_bytes = 256")
    path.write_text(text, encoding="utf-8")
    message = refusal(lambda: load_chip(path))
    assert message.startswith(f"{path}: 5 problems: name is 'ascend910b3', must be the name of the file, 'mine'; ")
    assert "family is 'inferense', must be one of '950', 'a3', 'a2'" in message
    assert "did you mean 'inference'?" in message
    assert "cores.vector is 'forty', must be a whole number" in message
    assert "memory.l1: reserved_bytes is 256, must be less than size_bytes, 256" in message
    assert "memory.ub.bankgroups is not a key of memory.ub; did you mean 'bank_groups'?" in message


def test_reserved_must_leave_something(tmp_path):
    path = tmp_path / "x.toml"
    text = load_chip("ascend910a").to_toml().replace('name = "ascend910a"', 'name = "x"')
    path.write_text(text.replace("reserved_bytes = 0", "reserved_bytes = 262144", 1), encoding="utf-8")
    assert refusal(lambda: load_chip(path)) == (
        f"{path}: memory.ub: reserved_bytes is 262,144, must be less than size_bytes, 262,144"
    )


def test_a_users_chip_goes_before_a_shipped_one(tmp_path, monkeypatch):
    given, named = tmp_path / "given", tmp_path / "named"
    for place, vector in ((given, 1), (named, 2)):
        place.mkdir()
        text = load_chip("ascend910b3").to_toml().replace("vector = 40", f"vector = {vector}")
        (place / "ascend910b3.toml").write_text(text, encoding="utf-8")
    (named / "mine.toml").write_text(text.replace('name = "ascend910b3"', 'name = "mine"'), encoding="utf-8")
    assert load_chip("ascend910b3").cores.vector == 40
    monkeypatch.setenv(CHIPS_VARIABLE, str(named))
    assert load_chip("ascend910b3").cores.vector == 2
    assert load_chip("ascend910b3", directory=given).cores.vector == 1
    assert load_chip("mine", directory=given).cores.vector == 2
    assert chip_directories(given)[:2] == (given, named)
    assert "mine" in chips_found()
    assert "mine" not in chips_shipped()
    monkeypatch.setenv(CHIPS_VARIABLE, os.pathsep.join([str(tmp_path / "none"), str(named)]))
    assert refusal(lambda: load_chip("ascend910b3")) == f"{tmp_path / 'none'}: is not a directory of chip files"


def test_override_reads_text_as_the_command_line_has_it():
    chip = load_chip("ascend910b3")
    changed = chip.override(
        {
            "cores.vector": 8,
            "memory.ub.size_bytes": "131_072",
            "clock.vector_hz": "1.65e9",
            "cost.divide.head_cycles": "7",
        }
    )
    assert changed.cores.vector == 8
    assert changed.memory.ub.visible_bytes == 131072 - 256
    assert changed.clock.vector_hz == 1_650_000_000
    assert changed.cost.divide.head_cycles == 7
    assert chip == load_chip("ascend910b3")
    assert hash(changed) != hash(chip)


def test_override_refuses_everything_wrong_at_once():
    message = refusal(
        lambda: load_chip("ascend910b3").override(
            {
                "memory.ub.size_byte": 1,
                "cores.vector": "many",
                "cores.cube": "0",
                "launch.base_us": "nan",
                "clock.cube_hz": 1.5,
            }
        )
    )
    assert message == (
        "ascend910b3: 5 problems: 'memory.ub.size_byte' is not a key of a chip; did you mean 'memory.ub.size_bytes'?; "
        "cores.vector is 'many', must be a whole number; cores.cube is 0, must be more than 0; "
        "clock.cube_hz is 1.5, must be a whole number; launch.base_us is nan, must be a finite number"
    )


def test_override_keeps_reserved_below_size():
    message = refusal(lambda: load_chip("ascend910b3").override({"memory.ub.size_bytes": 256}))
    assert message == "ascend910b3: memory.ub: reserved_bytes is 256, must be less than size_bytes, 256"


@pytest.mark.parametrize("key", ["name", "memory", "memory.ub", "memory.ub.source", "copy", "cores", ""])
def test_only_figures_have_keys(key):
    chip = load_chip("ascend910b3")
    assert f"{key!r} is not a key of a chip" in refusal(lambda: chip.get(key))
    assert f"{key!r} is not a key of a chip" in refusal(lambda: chip.override({key: 1}))


def test_the_end_of_a_key_is_enough_for_a_hint():
    assert "did you mean 'clock.vector_hz'?" in refusal(lambda: load_chip("ascend910b3").get("vector_hz"))


def test_an_overridden_figure_says_so():
    chip = load_chip("ascend910b3").override({"cores.vector": 8}).override({"cores.vector": 9, "cores.cube": 1})
    figures = {figure.key: figure for figure in chip.figures()}
    assert figures["cores.vector"].source == figures["cores.cube"].status == "override"
    assert figures["clock.cube_hz"].status == "platform"
    assert chip.overridden == {"cores.vector": 40, "cores.cube": 20}


def test_guesses_are_told():
    guesses = load_chip("ascend950pr").guesses()
    assert "launch.sync_us" in guesses
    assert "memory.ub" not in guesses
    assert "memory.gm" in load_chip("ascend950dt").guesses()


def test_diff_has_what_only_one_chip_has():
    differences = load_chip("ascend910b3").diff(load_chip("ascend910b2"))
    assert differences["cores.vector"] == (40, 48)
    assert differences["kernels.softmax.fixed_us"] == (None, load_chip("ascend910b2").kernels["softmax"].fixed_us)
    assert load_chip("ascend910b3").diff(load_chip("ascend910b3")) == {}


def test_a_chip_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        load_chip("ascend910b3").cores.vector = 1


def test_a_slip_in_guesses_is_refused(tmp_path):
    path = tmp_path / "ascend950pr.toml"
    path.write_text(load_chip("ascend950pr").to_toml().replace('["sync_us"]', '["sync"]'), encoding="utf-8")
    assert refusal(lambda: load_chip(path)).endswith(
        "launch: guesses names 'sync', which is not a parameter of this table; did you mean 'sync_us'?"
    )


def test_a_name_that_is_no_member_is_refused():
    chip = load_chip("ascend910b3")
    for action in (lambda: chip.memory.on_chip("gm"), lambda: chip.copies.path("ub_l1"), lambda: chip.cost.of("sort")):
        with pytest.raises(Exception, match="is not one of"):
            action()


def test_a_platform_file_is_a_chip(ini):
    made = import_chip(ini(INI))
    chip = made.chip
    assert (chip.name, chip.soc, chip.family, chip.arch) == ("ascend910b4-1", "Ascend910B4-1", "a2", "2201")
    assert made.base == "ascend910b4"
    assert (chip.cores.vector, chip.cores.cube, chip.clock.vector_hz) == (40, 20, 1_500_000_000)
    assert chip.memory.l2.size_bytes == 176160768
    assert chip.memory.ub.visible_bytes == 196352
    assert chip.copies.l1_l0a.bytes_per_cycle == 256, "measured, so the nominal 512 does not count"
    figures = {figure.key: figure for figure in chip.figures()}
    assert set(made.from_file) | set(made.missing) == set(figures)
    assert not set(made.from_file) & set(made.missing)
    for key in made.from_file:
        assert figures[key].status == "platform"
        assert figures[key].source.startswith("Ascend.ini")
    for key in made.missing:
        assert figures[key].status == "guess"
        assert "ascend910b4: " in figures[key].source
    assert "memory.l2.size_bytes" in made.from_file
    assert "memory.l2.read_bytes_per_s" in made.missing


def test_a_messy_platform_file_is_read(ini):
    made = import_chip(ini(MESSY_INI))
    assert made.base == "ascend310p3"
    assert made.chip.cores.vector == made.chip.cores.cube == 4, "these cores hold both units"
    assert made.chip.memory.ub.size_bytes == 65536, "the last of two counts"
    assert set(made.from_file) == {"cores.vector", "cores.cube", "memory.ub.size_bytes"}


def test_nominal_rates_count_where_nothing_was_measured(ini):
    text = "[version]\nSoC_version=Ascend310P1\n[AICoreMemoryRates]\nl1_to_l0_a_rate=99\n"
    made = import_chip(ini(text))
    assert made.chip.copies.l1_l0a.bytes_per_cycle == made.chip.copies.l1_l0a.peak_bytes_per_cycle == 99
    assert set(made.from_file) == {"copy.l1_l0a.bytes_per_cycle", "copy.l1_l0a.peak_bytes_per_cycle"}


@pytest.mark.parametrize(
    ("short", "base"),
    [
        ("Ascend910B", "ascend910b1"),
        ("Ascend910_93", "ascend910_9362"),
        ("Ascend910_95", "ascend950dt"),
        ("Ascend950", "ascend950dt"),
        ("Ascend310B", "ascend310b1"),
        ("Ascend310P", "ascend310p3"),
        ("Ascend910", "ascend910a"),
    ],
)
def test_an_empty_file_is_its_family(short, base, ini):
    made = import_chip(ini(f"[version]\nShort_SoC_version={short}\n"))
    assert load_chip(made.base).family == load_chip(base).family
    assert made.from_file == ()


def test_the_files_name_tells_the_part_if_the_file_does_not(ini):
    assert import_chip(ini("[AICoreSpec]\nub_size=196608\n", "Ascend910B2C.ini")).base == "ascend910b2"


def test_an_imported_chip_can_be_kept(ini, tmp_path):
    chip = load_chip(ini(INI))
    path = tmp_path / f"{chip.name}.toml"
    path.write_text(chip.to_toml(), encoding="utf-8")
    assert load_chip(path) == chip


def test_a_platform_file_of_no_known_family_is_refused(ini):
    path = ini("[version]\nSoC_version=Hi3796\n")
    assert refusal(lambda: load_chip(path)) == (
        f"{path}: version.Short_SoC_version is 'Hi3796', which is of no known family;"
        " import it like a chip, or like one of 950, a2, a3, inference, inference-200i, training"
    )
    assert import_chip(path, like="ascend310p3").base == "ascend310p3"
    made = import_chip(path, like="training")
    assert (made.base, made.notes) == ("ascend910a", ("the family is training, as requested",))


@pytest.mark.parametrize("base", ["ascend950dt", "ascend910a", "ascend310p3", "ascend310b1"])
def test_a_file_that_does_not_name_its_part_is_like_the_chip_with_its_figures(base, ini):
    chip = load_chip(base)
    text = (
        f"[SoCInfo]\nai_core_cnt={chip.cores.cube}\ncube_core_cnt={chip.cores.cube}\n"
        f"vector_core_cnt={chip.cores.vector}\n[AICoreSpec]\nub_size={chip.memory.ub.size_bytes}\n"
        f"l0_c_size={chip.memory.l0c.size_bytes}\n"
    )
    made = import_chip(ini(text, "mysoc.ini"))
    assert made.chip.family == chip.family
    assert made.chip.memory.ub.size_bytes == chip.memory.ub.size_bytes
    assert made.notes == (f"the family is {chip.family}, a guess from the parameters",)
    assert import_chip(ini(text, "mysoc.ini"), like="ascend910b2").base == "ascend910b2"


def test_a_file_that_says_nothing_is_refused_with_the_reason(ini):
    message = refusal(lambda: import_chip(ini("[SoCInfo]\n", "mysoc.ini")))
    assert (
        "neither [version] nor the file's name states a family, and the file has none of memory.ub.size_bytes"
        in message
    )


def test_what_a_platform_file_has_twice_is_told(ini):
    made = import_chip(
        ini("[SoCInfo]\nvector_core_cnt=40\n[AICoreSpec]\n[SoCInfo]\nvector_core_cnt=41\n", "Ascend910B3.ini")
    )
    assert made.notes == (
        "[SoCInfo] is in line 1 and again in line 4",
        "[socinfo] vector_core_cnt is 40, then 41 in line 5, which counts",
    )


def test_bad_values_of_a_platform_file_are_refused_together(ini):
    path = ini(INI.replace("ub_size=196608", "ub_size=lots").replace("l1_size=524288", "l1_size=-5"))
    message = refusal(lambda: load_chip(path))
    assert message.startswith(f"{path}: ")
    assert "AICoreSpec.ub_size is 'lots', must be a whole number" in message
    assert "memory.l1.size_bytes is -5, must be more than 0" in message


def test_importing_takes_little_time_and_no_numpy():
    code = (
        "import sys, time; import pydantic; start = time.perf_counter(); import tilesim.chip.loading as c; "
        "c.load_chip('ascend950pr'); took = time.perf_counter() - start; "
        "assert took < 1, took; assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONWARNINGS": ""})
