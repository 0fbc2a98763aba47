"""Queues, accumulators, barriers and staging areas."""
