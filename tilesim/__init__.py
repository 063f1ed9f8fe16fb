"""Tiling, resource planning and simulation of NPU operators."""
