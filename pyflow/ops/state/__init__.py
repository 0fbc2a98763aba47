"""Variables, optimizer steps, tables and mutexes."""
