"""Command-line tools: one module per command of `python -m pyflow`."""
