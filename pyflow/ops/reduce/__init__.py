"""Reductions, scans, segments, searches and counts."""
