"""What runs graphs over tasks: servers with their masters and workers, and clients.

Stands on wire/ and look/.
"""
