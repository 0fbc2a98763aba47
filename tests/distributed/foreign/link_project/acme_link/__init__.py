"""A plugin of a third party; all of it is in the library beside this file."""
