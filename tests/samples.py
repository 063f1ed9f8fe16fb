"""The samples in reports/: what each is asked for, and how they are written again: `make samples`.

The page is not tracked: it is made where it is wanted, and tests make it and open it in a browser.
"""

import os
from pathlib import Path

from typer.testing import CliRunner

from tilesim.cli import app

PLACE = Path(__file__).parent.parent / "reports"
CHIPS = ("ascend950pr", "ascend910b3", "ascend910_9391")
"""One chip of each family that has operators of today: 950, A2, A3."""
GATED = ("text_gated_residual_grad", {"B": 1, "S": 4096, "C": 4, "H": 2560, "R": 320})
CONVOLUTION = ("masked_causal_conv1d_backward", {"S": 8192, "B": 2, "H": 4096, "W": 3})
GLU = ("glu_backward", {"self": (2, 4096, 8192)})
PAGE = "text_gated_residual_grad.html"
SAMPLES = {
    PAGE: GATED,
    "text_gated_residual_grad.md": GATED,
    "text_gated_residual_grad-refused.md": (GATED[0], {**GATED[1], "H": 5120, "R": 656}),
    "masked_causal_conv1d_backward.md": CONVOLUTION,
    "glu_backward.md": GLU,
}
TRACKED = [name for name in SAMPLES if name != PAGE]


def words(name: str) -> list[str]:
    """Return the command line that writes a file of reports/, called in the directory above it."""
    op, given = SAMPLES[name]
    sizes = [f"{k}={'x'.join(map(str, v)) if isinstance(v, tuple) else v}" for k, v in given.items()]
    chips = [word for chip in CHIPS for word in ("--chip", chip)]
    return ["report", op, *sizes, *chips, "--out", f"reports/{name}"]


def sample(name: str, place: Path) -> Path:
    """Return the file that the command writes into reports/ in `place`."""
    (place / "reports").mkdir(exist_ok=True)
    before = Path.cwd()
    os.chdir(place)
    try:
        done = CliRunner().invoke(app, words(name), prog_name="tilesim")
        if done.exit_code > 1:
            raise RuntimeError(done.stderr)
        return place / "reports" / name
    finally:
        os.chdir(before)


if __name__ == "__main__":
    for name in SAMPLES:
        sample(name, PLACE.parent)
