"""python -m pyflow trace FILE"""


def main(argv):
    raise SystemExit("being written")
