"""Speed of tilesim as ratios, errors of its times, and the tests that find seeded faults; never a test itself."""
