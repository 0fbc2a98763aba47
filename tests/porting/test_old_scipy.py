"""scipy.misc and scipy.sparse.linalg.eigen for programs of old, with a SciPy that lacks them; the
values are SciPy 1.0's rules."""
import subprocess
import sys
import textwrap

SCIPY = {
    "__init__.py": "", "special.py": "def comb(n, k): return 10\n", "sparse/__init__.py": "",
    "sparse/linalg/__init__.py": "__all__ = ['eigsh']\ndef eigsh(): return 'eigsh'\n"}
PROGRAM = """
    import pyflow
    pyflow.compat.install_as_tensorflow(old_python=True)
    import sys
    assert "scipy" not in sys.modules and "PIL" not in sys.modules
    from scipy.sparse.linalg.eigen.arpack import eigsh
    from scipy.misc import comb, imread, imresize, imrotate, imsave
    import scipy.misc
    import numpy as np
    assert eigsh() == "eigsh" and comb(5, 2) == 10 and not hasattr(scipy.misc, "nothing")
    ramp = np.arange(12.0).reshape(3, 4)
    assert scipy.misc.bytescale(ramp)[-1].tolist() == [185, 209, 232, 255]
    assert scipy.misc.bytescale(ramp, cmin=0, cmax=22, high=100)[2, 3] == 50
    imsave("p.png", np.stack([ramp, ramp, ramp], 2))
    assert imread("p.png").shape == (3, 4, 3) and imread("p.png")[2, 3].tolist() == [255] * 3
    assert imread("p.png", flatten=True).dtype == np.float32
    assert imread("p.png", mode="L").shape == (3, 4)
    bytes_ = np.arange(16, dtype=np.uint8).reshape(4, 4)
    for size in ((2, 6), 50, 1.5):
        want = {50: (2, 2), 1.5: (6, 6)}.get(size, size)
        assert imresize(bytes_, size, "nearest").shape == want, size
    assert imresize(bytes_, (4, 4)).tolist() == bytes_.tolist()
    assert imrotate(bytes_, 90, "nearest").tolist() == np.rot90(bytes_).tolist()
"""


def test_old_modules(tmp_path):
    for name, text in SCIPY.items():
        path = tmp_path / "scipy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + textwrap.dedent(PROGRAM)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True,
                          text=True, timeout=60)
    assert not done.returncode, done.stderr
