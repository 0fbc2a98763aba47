"""One server for the tests that change nothing of it."""
import pytest


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """Models zoo (version 7), half (1 and 2; labels stable: 1, next: 3), and TensorFlow's."""
    pytest.importorskip("httptools")
    pytest.importorskip("uvicorn")
    from serving_models import FROM_TENSORFLOW, SAVED, Served, write_half, write_zoo
    folder = tmp_path_factory.mktemp("models")
    write_zoo(folder / "zoo" / "00000007")
    for version, b in ((1, 2.0), (2, 3.0)):
        write_half(folder / "half" / str(version), b)
    (folder / "half" / "not-a-version").mkdir()
    folders = {"zoo": folder / "zoo", "half": folder / "half",
               **{name: SAVED / name for name, _ in FROM_TENSORFLOW}}
    with Served(folders, keep=2, labels={"stable": 1, "next": 3},
                limits={"poll": 0.0, "max_body": 100_000}) as served:
        yield served
