"""Trainings over tasks: sessions that recover, commits, where parameters are, sums over tasks.

The highest room of pyflow.distributed: it may use all of the others.
"""
