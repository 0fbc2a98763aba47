"""Ops that route values: Switch, Merge, Enter, Identity and their kin; placeholders."""
