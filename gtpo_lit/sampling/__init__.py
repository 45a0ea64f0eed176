"""Engines that draw completions: one protocol, one file for each engine."""
