"""What the blocks of all families share: shape rules, gradient algebra, windows, sample lists."""
