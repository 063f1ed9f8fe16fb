"""Parameters of a chip in a CANN platform_config `.ini`, under the keys of a chip file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from tilesim.chip.tables import FAMILY_NAMES

_MHZ: Final = 1_000_000

_SIZES: Final[dict[str, tuple[str, ...]]] = {
    "vector.width_bytes": ("VectorCoreSpec.vector_reg_width", "AICoreSpec.vector_reg_width"),
    "memory.ub.size_bytes": ("AICoreSpec.ub_size", "VectorCoreSpec.ub_size"),
    "memory.ub.align_bytes": ("AICoreSpec.ubblock_size", "VectorCoreSpec.ubblock_size"),
    "memory.l1.size_bytes": ("AICoreSpec.l1_size",),
    "memory.l0a.size_bytes": ("AICoreSpec.l0_a_size",),
    "memory.l0b.size_bytes": ("AICoreSpec.l0_b_size",),
    "memory.l0c.size_bytes": ("AICoreSpec.l0_c_size",),
    "memory.gm.size_bytes": ("SoCInfo.memory_size",),
    "memory.l2.size_bytes": ("SoCInfo.l2_size",),
}
"""Chip key to the ini's keys, of which the first that the file has counts. The two sections of 310B1 differ in ub_size;
kernels see the AI core's."""

_NOMINAL: Final[dict[str, tuple[str, ...]]] = {
    "copy.gm_ub.peak_bytes_per_cycle": ("AICoreMemoryRates.l2_read_rate", "VectorCoreMemoryRates.l2_read_rate"),
    "copy.ub_gm.peak_bytes_per_cycle": ("AICoreMemoryRates.ub_to_l2_rate", "VectorCoreMemoryRates.ub_to_l2_rate"),
    "copy.l1_l0a.peak_bytes_per_cycle": ("AICoreMemoryRates.l1_to_l0_a_rate",),
    "copy.l1_l0b.peak_bytes_per_cycle": ("AICoreMemoryRates.l1_to_l0_b_rate",),
}
"""Nominal rates, which no kernel reaches: they count only for a family without measurements."""


@dataclass(frozen=True)
class PlatformFile:
    """The parameters of one platform file."""

    file: str
    """Its name."""
    soc: str
    """`version.SoC_version`, such as "Ascend910B3"; the file's name if it has none."""
    short_soc: str
    """`version.Short_SoC_version`, such as "Ascend910B"; `soc` if the file has none."""
    named: bool
    """True if the file names its part."""
    family: str | None
    """The family of a chip file; None if neither the file nor its name has a known one."""
    figures: Mapping[str, int]
    """Counts, clocks and sizes by chip key."""
    nominal: Mapping[str, int]
    """Rates by chip key."""
    problems: tuple[str, ...]
    """Values that are not whole numbers."""
    notes: tuple[str, ...]
    """Sections and keys that the file has more than once."""


def read_platform(text: str, file: str) -> PlatformFile:
    """Return the parameters in `text`, the content of the `.ini` called `file`; missing and empty values are left out.

    >>> read_platform("[AICoreSpec]  # a core" + chr(10) + "  ub_size = 196608", "Ascend910B3.ini").figures
    {'memory.ub.size_bytes': 196608}
    """
    values, notes = _values(text)
    problems: list[str] = []

    def first(*names: str) -> int | None:
        name = next((name for name in names if values.get(name.lower())), None)
        if name is None:
            return None
        try:
            return int(values[name.lower()], 0)
        except ValueError:
            problems.append(f"{name} is {values[name.lower()]!r}, must be a whole number")
            return None

    # A file without cube_core_cnt describes cores that hold both units; its vector_core_cnt, if any, are extra ones.
    split = bool(values.get("socinfo.cube_core_cnt"))
    cube_mhz = first("AICoreSpec.cube_freq")
    vector_mhz = (first("VectorCoreSpec.vec_freq") if split else None) or cube_mhz
    figures = {
        "cores.vector": first("SoCInfo.vector_core_cnt" if split else "SoCInfo.ai_core_cnt"),
        "cores.cube": first("SoCInfo.cube_core_cnt", "SoCInfo.ai_core_cnt"),
        "clock.vector_hz": None if vector_mhz is None else vector_mhz * _MHZ,
        "clock.cube_hz": None if cube_mhz is None else cube_mhz * _MHZ,
        **{key: first(*names) for key, names in _SIZES.items()},
    }
    nominal = {key: first(*names) for key, names in _NOMINAL.items()}
    soc = values.get("version.soc_version") or PurePath(file).stem
    short_soc = values.get("version.short_soc_version") or soc
    return PlatformFile(
        file=file,
        soc=soc,
        short_soc=short_soc,
        named=bool(values.get("version.soc_version") or values.get("version.short_soc_version")),
        family=next((family for start, family in FAMILY_NAMES.items() if short_soc.lower().startswith(start)), None),
        figures={key: value for key, value in figures.items() if value is not None},
        nominal={key: value for key, value in nominal.items() if value is not None},
        problems=tuple(dict.fromkeys(problems)),
        notes=tuple(notes),
    )


def _values(text: str) -> tuple[dict[str, str], list[str]]:
    """Return `section.key` in lower case to its text, and notes on duplicates, of which the last counts.

    Comments, blanks and lines that are neither a section nor a key are skipped.
    """
    values: dict[str, str] = {}
    sections: dict[str, int] = {}
    notes: list[str] = []
    section = ""
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line = raw.split("#", 1)[0].split(";", 1)[0].strip()
        key, equals, value = line.partition("=")
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip().lower()
            if section in sections:
                notes.append(f"[{line[1:-1].strip()}] is in line {sections[section]} and again in line {number}")
            sections[section] = number
        elif equals:
            name, word = f"{section}.{key.strip().lower()}", value.strip().strip("\"'")
            if values.get(name, word) != word:
                notes.append(f"[{section}] {key.strip()} is {values[name]}, then {word} in line {number}, which counts")
            values[name] = word
    return values, notes
