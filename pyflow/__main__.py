"""python -m pyflow COMMAND: see tools/command.py."""
import sys

from pyflow.tools.command import main

sys.exit(main())
