"""The samples in reports/: what each is asked for, and how they are written again: `python -m tests.samples`."""

from pathlib import Path

from tilesim.report import Report, report

PLACE = Path(__file__).parent.parent / "reports"
CHIPS = ("ascend950pr", "ascend910b3", "ascend910_9391")
"""One chip of each family that has operators of today: 950, A2, A3."""
GATED = ("text_gated_residual_grad", {"B": 1, "S": 4096, "C": 4, "H": 2560, "R": 320})
CONVOLUTION = ("masked_causal_conv1d_backward", {"S": 8192, "B": 2, "H": 4096, "W": 3})
GLU = ("glu_backward", {"self": (2, 4096, 8192)})
SAMPLES = {
    "text_gated_residual_grad.html": GATED,
    "text_gated_residual_grad.md": GATED,
    "text_gated_residual_grad-refused.md": (GATED[0], {**GATED[1], "H": 5120, "R": 656}),
    "masked_causal_conv1d_backward.md": CONVOLUTION,
    "glu_backward.md": GLU,
}


def sample(name: str) -> Report:
    """The report that a file of reports/ holds."""
    op, given = SAMPLES[name]
    words = " ".join(f"{k}={'x'.join(map(str, v)) if isinstance(v, tuple) else v}" for k, v in given.items())
    chips = " ".join(f"--chip {chip}" for chip in CHIPS)
    return report(op, given, chips=CHIPS, command=f"tilesim report {op} {words} {chips} --out reports/{name}")


if __name__ == "__main__":
    PLACE.mkdir(exist_ok=True)
    for one in SAMPLES:
        sample(one).write(PLACE / one)
