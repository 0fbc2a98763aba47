"""What TF 1.x programs expect around the graph: flags, app, logging, gfile, test, compat.  Loaded
on first use."""
