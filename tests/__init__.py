"""Tests of tilesim, with their references and golden data."""
