"""How fast tilesim is, and how far off its times are: figures of one run, as ratios, never a test."""
