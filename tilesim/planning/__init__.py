"""Decisions: tile sizes, cores and buffer map of every phase, by rule, by search or by hand.

`plan_of` is the entry. A plan has sizes and prices by phase; the time with launches and syncs is simulation's.
"""
