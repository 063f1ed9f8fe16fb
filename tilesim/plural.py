"""Numbers with what they count."""


def several(count: int, one: str, many: str = "") -> str:
    """A number and what it counts.

    >>> several(1, "buffer"), several(63, "buffer"), several(2, "inequality", "inequalities")
    ('1 buffer', '63 buffers', '2 inequalities')
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
