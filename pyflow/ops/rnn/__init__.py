"""Recurrent steps as one op, and connectionist temporal classification."""
