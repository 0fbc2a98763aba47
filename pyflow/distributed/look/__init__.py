"""What is seen of tasks from outside: who answers, what waits for what, traces, clocks.

Stands on wire/, and knows no server: what a server tells of itself it tells by messages.
"""
