"""Tests of the programs in Python."""
