"""What TF 1.x programs expect around the graph: flags, app, logging, gfile, compat, tf.test."""
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import pyflow as tf


def program(tmp_path, code, *args, status=0):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(code))
    done = subprocess.run([sys.executable, str(path), *args], text=True, capture_output=True)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


FLAGS = """
    import sys
    sys.modules["absl"] = None              # as where it is not installed; with it: test_flags.py
    import pyflow as tf
    tf.flags.DEFINE_integer("steps", 100, "Training steps.")
    tf.app.flags.DEFINE_float("rate", 0.5, "Rate.")
    tf.flags.DEFINE_string("name", None, "Name.")
    tf.flags.DEFINE_boolean("fast", False, "Fast?")
    tf.flags.DEFINE_enum("mode", "a", ["a", "b"], "Mode.")
    tf.flags.DEFINE_list("layers", "1,2", "Layers.")
    FLAGS = tf.flags.FLAGS

    def main(argv):
        print(FLAGS.steps, FLAGS.rate, FLAGS.name, FLAGS.fast, FLAGS.mode, FLAGS.layers, argv[1:])
        return 3

    if __name__ == "__main__":
        tf.app.run()
    """


def test_flags_and_app(tmp_path):
    assert program(tmp_path, FLAGS, status=3) == "100 0.5 None False a ['1', '2'] []\n"
    out = program(tmp_path, FLAGS, "--steps=7", "--rate", "2", "--name=x", "--fast", "--mode=b",
                  "--layers=9", "rest", status=3)
    assert out == "7 2.0 x True b ['9'] ['rest']\n"
    assert "False" in program(tmp_path, FLAGS, "--fast", "--nofast", status=3)
    assert "unknown flags: --stepz=1" in program(tmp_path, FLAGS, "--stepz=1", status=2)
    assert "invalid" in program(tmp_path, FLAGS, "--steps=many", status=2)


def test_flags_outside_app(tmp_path):
    out = program(tmp_path, """
        import sys
        sys.modules["absl"] = None
        import pyflow as tf
        tf.flags.DEFINE_string("data", "here", "Folder.")
        FLAGS = tf.flags.FLAGS
        print(FLAGS.data, "data" in FLAGS, FLAGS.flag_values_dict())
        FLAGS.data = "there"
        print(FLAGS.data)
        try:
            tf.flags.DEFINE_string("data", "", "")
        except ValueError as e:
            print(e)
        """, "--data=x", "--other=1")
    assert out.splitlines() == ["x True {'data': 'x'}", "there", "flag --data is defined twice"]


def test_logging(tmp_path):
    out = program(tmp_path, """
        import pyflow as tf
        tf.logging.info("unheard")
        tf.logging.set_verbosity(tf.logging.INFO)
        tf.logging.info("step %d", 3)
        for _ in range(3):
            tf.logging.log_first_n(tf.logging.WARN, "twice", 2)
        assert tf.logging.get_verbosity() == tf.logging.INFO
        """)
    assert out == "INFO:tensorflow:step 3\n" + "WARNING:tensorflow:twice\n" * 2


def test_gfile(tmp_path):
    folder = str(tmp_path / "a" / "b")
    tf.gfile.MakeDirs(folder)
    tf.gfile.MakeDirs(folder)
    with tf.gfile.GFile(folder + "/x.txt", "w") as f:
        f.write("one\ntwo\n")
    with tf.gfile.Open(folder + "/x.txt") as f:
        assert f.size() == 8 and list(f) == ["one\n", "two\n"]
    assert tf.gfile.FastGFile(folder + "/x.txt", "rb").read() == b"one\ntwo\n"
    tf.gfile.Copy(folder + "/x.txt", folder + "/y.txt")
    with pytest.raises(tf.errors.AlreadyExistsError):
        tf.gfile.Copy(folder + "/x.txt", folder + "/y.txt")
    tf.gfile.Rename(folder + "/y.txt", folder + "/z.txt")
    assert sorted(tf.gfile.ListDirectory(folder)) == ["x.txt", "z.txt"]
    assert len(tf.gfile.Glob([folder + "/*.txt", folder + "/none*"])) == 2
    tf.gfile.Remove(folder + "/z.txt")
    with pytest.raises(tf.errors.NotFoundError):
        tf.gfile.Remove(folder + "/z.txt")
    with pytest.raises(tf.errors.NotFoundError):
        tf.gfile.GFile(folder + "/none").read()
    tf.gfile.DeleteRecursively(str(tmp_path / "a"))
    assert not tf.gfile.Exists(folder) and tf.gfile.IsDirectory(str(tmp_path))


def test_compat():
    assert tf.compat.as_bytes("\u00e9") == "\u00e9".encode() and tf.compat.as_str(b"x") == "x"
    assert tf.compat.as_str_any(3) == "3" and tf.compat.as_text("x") == "x"
    with pytest.raises(TypeError):
        tf.compat.as_bytes(3)


class AssertionsTest(tf.test.TestCase):
    """tf.test.TestCase itself, run by pytest as any unittest class."""

    def test_sessions(self):
        with self.session() as sess:
            self.assertIs(sess, tf.get_default_session())
            self.assertAllEqual(tf.constant([1, 2]).eval(), [1, 2])
        with self.cached_session() as one:
            pass
        with self.test_session() as two:
            self.assertIs(one, two)
        self.assertEqual(self.evaluate(tf.constant(3)), 3)

    def test_arrays(self):
        self.assertAllClose([1.0, 2.0], np.array([1.0, 2.0 + 1e-7]))
        self.assertAllClose(
            {"a": [1.0], "b": [[1.0], [2.0, 3.0]]}, {"a": [1.0], "b": [[1.0], [2.0, 3.0]]}
        )
        self.assertAllCloseAccordingToType(np.float16(1), np.float16(1.0005))
        self.assertAllEqual(np.array([b"a"], object), ["a"])
        for wrong in (lambda: self.assertAllClose([1.0], [2.0]),
                      lambda: self.assertAllClose([1.0], [1.0, 1.0]),
                      lambda: self.assertAllEqual([1], [2]),
                      lambda: self.assertNear(1, 2, 0.5),
                      lambda: self.assertNotAllClose([1.0], [1.0])):
            with self.assertRaises(AssertionError):
                wrong()

    def test_errors(self):
        with self.session() as sess:
            x = tf.placeholder(tf.float32, name="unfed")
            with self.assertRaisesOpError("must feed a value"):
                sess.run(x + 1)
            with self.assertRaisesWithPredicateMatch(ValueError, lambda e: "fed" in str(e)):
                raise ValueError("fed")

    def test_gradient_checker(self):
        with self.session():
            x = tf.placeholder_with_default(np.ones((2, 3)), [2, 3])
            y = tf.tanh(x) * x
            self.assertLess(tf.test.compute_gradient_error(x, [2, 3], y, [2, 3]), 1e-4)

    def test_folders(self):
        self.assertTrue(os.path.isdir(self.get_temp_dir()))
        self.assertTrue(self.get_temp_dir().startswith(tf.test.get_temp_dir()))
        self.assertEqual(tf.test.gpu_device_name(), "")
