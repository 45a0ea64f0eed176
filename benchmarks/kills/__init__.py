"""Runs that are killed at chosen places and moments, resumed, and compared with whole ones."""
