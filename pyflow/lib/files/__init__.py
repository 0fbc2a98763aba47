"""Files read and written whole."""
