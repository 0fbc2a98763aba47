"""Files: checkpoints, and files read and written whole."""
