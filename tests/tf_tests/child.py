"""Runs the tests of one file of TensorFlow's own, and writes a line of JSON for each.

    python child.py FILE RESULTS [SECONDS] [SKIP ...]         # run.py starts it

A line: {"test": "Class.method", "state": "running" or what came of it, "kind", "said", "missing"}.
SECONDS: what one test may take. SKIP: tests that an earlier child did not survive.

Invariants
    1. `import tensorflow` is pyflow's. What is missing there is a Placeholder to whoever imports it
       in a module or a class's body, so that one missing name costs the tests that use it alone.
    2. Using a Placeholder in a function raises Missing, which names the path that was asked for;
       what a test says is missing is the first such path, or the attribute that an object lacked.
    3. A test's line "running" stands in the file before it starts.
"""
import contextlib
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import signal
import sys
import time
import traceback
import unittest


class Missing(AttributeError):
    """A name of TensorFlow's that pyflow does not have."""


class Placeholder:
    """Stands for what is missing below `tensorflow`; raises Missing where a function uses it."""

    def __init__(self, path):
        self.__dict__.update(_path=path, __path__=[], __name__=path, __spec__=None, __all__=[])

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self._said(f"{self._path}.{name}")

    def __call__(self, *args, **kwargs):
        return self._said(self._path, args)

    def _said(self, path, args=()):
        """Another Placeholder for the body of a module or class; for a decorator, a test that says
        what is missing."""
        if _in_function(sys._getframe(2)):
            raise Missing(path)
        if len(args) == 1 and callable(args[0]) and not isinstance(args[0], (type, Placeholder)):
            def test(*unused, **unused_too):
                raise Missing(path)
            test.__name__ = args[0].__name__
            return test
        return args[0] if args and isinstance(args[0], type) else Placeholder(path)

    def __mro_entries__(self, bases):
        path = self._path

        class Base:
            def __init_subclass__(cls, **unused):
                super().__init_subclass__()

            def __getattribute__(self, name):
                """A test that gets at such an object asks for its class."""
                if Results.running and not issubclass(type(self), unittest.TestCase):
                    raise Missing(path)
                return super().__getattribute__(name)

            def __eq__(self, other):
                return self.__class__ is other.__class__ and self is other

            __hash__ = object.__hash__

            def __repr__(self):
                return f"<{self.__class__.__name__}>"

            def __init__(self, *args, **kwargs):
                if isinstance(self, unittest.TestCase):
                    unittest.TestCase.__init__(self, *args[:1])
                else:
                    raise Missing(path)

            def setUp(self):  # noqa: N802 - unittest's name
                raise Missing(path)
        real = any(isinstance(b, type) and issubclass(b, unittest.TestCase) for b in bases)
        return (Base,) if real else (Base, unittest.TestCase) if "est" in path else (Base,)

    def __iter__(self):
        if _in_function(sys._getframe(1)):
            raise Missing(self._path)
        return iter(())

    def __bool__(self):
        return False

    def __enter__(self):
        raise Missing(self._path)

    def __exit__(self, *unused):
        return False


def _in_function(frame):
    """Whether a frame is a function's: those of modules and classes are not optimised."""
    while frame.f_code.co_filename.startswith("<frozen"):
        frame = frame.f_back
    return bool(frame.f_code.co_flags & 1)


def install(root):
    """Makes `import tensorflow` find pyflow, with Placeholders for what it lacks; modules that
    TensorFlow's tests share (*test_util*.py) are those of the folder `root`."""
    import pyflow
    from pyflow.interop.tensorflow import finder
    pyflow.compat.install_as_tensorflow(old_python=True)
    sys.modules["tensorflow"]               # made before its class is changed
    module, find = finder._Module.__getattr__, finder.Finder.find_spec

    whole = (root / "tensorflow/python/framework/ops.py").exists()

    def is_module(found):
        """False for a module that TensorFlow does not have, which the shim makes of a name."""
        path = root / getattr(found, "__name__", "").replace(".", "/")
        return not whole or not isinstance(found, finder._Module) or path.is_dir() \
            or path.with_suffix(".py").exists() or "python" not in path.parts[-4:]

    def getattr_(self, name):
        try:
            found = module(self, name)
            if is_module(found):
                return found
            raise AttributeError(name)
        except (AttributeError, ModuleNotFoundError) as e:
            path = f"{self._path}.{name}".lstrip(".")
            if name.startswith("__"):
                raise
            if not _in_function(sys._getframe(1)):
                return Placeholder(path)
            raise Missing(f"{path}") from e

    def find_spec(self, full_name, path=None, target=None):
        try:
            return find(self, full_name, path, target)
        except ModuleNotFoundError:
            file = root / f"{full_name.replace('.', '/')}.py"
            if "test_util" in file.name and file.exists():
                return importlib.util.spec_from_file_location(full_name, file)
            return importlib.machinery.ModuleSpec(full_name, _Loader(), is_package=True)
    finder._Module.__getattr__, finder.Finder.find_spec = getattr_, find_spec
    declare_test_ops(root / "tensorflow/python/framework/test_ops.cc")
    finder.paths.EXACT["python.framework.test_ops"] = ("pyflow:interop.tensorflow.gen_ops",)


declared = set()            # names of the ops of test_ops.cc
_CALL = re.compile(r'\.(Input|Output|Attr)\(\s*((?:"[^"]*"\s*)+)\)')


def declare_test_ops(file):
    """The ops of TensorFlow's library for its tests, test_ops.cc: signatures without kernels, from
    which graphs are built and read."""
    from pyflow.framework import op as op_lib
    from pyflow.framework.tensor_shape import TensorShape
    text = file.read_text("utf-8") if file.exists() else ""
    for block in re.split(r"(?=REGISTER_OP\()", text)[1:]:
        name, parts = re.match(r'REGISTER_OP\("(\w+)"\)', block)[1], {}
        for kind, value in _CALL.findall(block.partition("REGISTER_KERNEL")[0]):
            value = "".join(re.findall(r'"([^"]*)"', value))
            parts.setdefault(kind, []).append(
                re.sub(r"\bDT_(\w+)", lambda m: m[1].lower(), value))
        scalar = "ScalarShape" in block

        class Block:
            def shape(op, scalar=scalar):
                return [TensorShape([] if scalar else None)] * len(op.outputs)
            gradient, reference, samples = op_lib.UNREGISTERED, None, None
        made = op_lib.op(
            name, *(", ".join(parts.get(kind, ())) for kind in ("Input", "Output", "Attr")),
            stateful="SetIsStateful" in block, doc="One of test_ops.cc.")(Block)
        with contextlib.suppress(ValueError):           # attributes of a form that is not read here
            made.inputs
            op_lib.register(made)
            declared.add(name)


class _Loader:
    def create_module(self, spec):
        return Placeholder(spec.name.removeprefix("tensorflow."))

    def exec_module(self, module):
        pass


class TooLong(BaseException):
    """A test took longer than it may."""


class Results(unittest.TestResult):
    """Writes a line for each test."""

    running = False                     # whether a test runs

    def __init__(self, out, seconds):
        super().__init__()
        self.out, self.seconds = out, seconds

    def write(self, test, state, **more):
        name = test if isinstance(test, str) else name_of(test)
        self.out.write(json.dumps({"test": name, "state": state, **more}) + "\n")
        self.out.flush()

    def startTest(self, test):  # noqa: N802
        super().startTest(test)
        self.write(test, "running")
        self._failed = False
        self._began = time.monotonic()
        Results.running = True
        signal.alarm(self.seconds)

    def stopTest(self, test):  # noqa: N802
        signal.alarm(0)
        Results.running = False
        super().stopTest(test)

    def addSuccess(self, test):  # noqa: N802
        if not self._failed:
            self.write(test, "passed", seconds=round(time.monotonic() - self._began, 2))

    def addSubTest(self, test, subtest, err):  # noqa: N802
        if err is not None and not self._failed:
            self.addError(test, err)

    def addSkip(self, test, reason):  # noqa: N802
        self.write(test, "skipped", said=reason)

    def addExpectedFailure(self, test, err):  # noqa: N802
        self.write(test, "passed")

    def addError(self, test, err):  # noqa: N802
        self._failed = True
        if isinstance(test, unittest.suite._ErrorHolder):
            test = test.id()
        self.write(test, "failed", **described(err))

    addFailure = addError


def described(err):
    """What is written of an exception: its type, text, what it says is missing, where it was."""
    kind, value, trace = err
    chain, missing = value, ""
    while chain is not None and not missing:
        if isinstance(chain, Missing):
            missing = str(chain)
        elif isinstance(chain, AttributeError) and chain.name:
            owner = chain.obj if isinstance(chain.obj, type) else type(chain.obj)
            if chain.obj is None:       # a Tensor's errors do not hold it
                owner = sys.modules["pyflow"].Tensor
            missing = f"{owner.__module__}:{owner.__qualname__}.{chain.name}"
        elif found := re.search(r"op (\w+) has no kernel at all", str(chain)):
            if found[1] in declared:
                missing = f"core.framework/test_ops.{found[1]}"
        elif isinstance(chain, AssertionError):
            found = re.search(r"""does not match ["'](?:module ')?((?:python|core)\.[\w.]+)["']""",
                              str(chain))
            missing = found[1] if found else ""
        chain = chain.__cause__ or chain.__context__
    text = "".join(traceback.format_exception(kind, value, trace)[-4000:])
    return {"kind": kind.__name__, "said": str(value)[:600], "missing": missing,
            "trace": text[-6000:]}


def _stopped(number, frame):
    raise TooLong("longer than it may take")


def name_of(test):
    """Class.method; of a parameterised test without its parameters."""
    return f"{type(test).__name__}.{test._testMethodName}"


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def main(file, results, seconds="60", *skip):
    install(pathlib.Path(file).resolve().parents[file.split("/tensorflow/")[-1].count("/") + 1])
    sys.argv = [file]
    name = pathlib.Path(file).stem
    signal.signal(signal.SIGALRM, _stopped)
    with contextlib.suppress(ImportError):      # a space that absl-py has put into names since
        from absl.testing import parameterized
        new_id = parameterized.TestCase.id
        parameterized.TestCase.id = lambda self: new_id(self).replace(" (", "(", 1)
    with open(results, "a", encoding="utf-8") as out:
        found = Results(out, int(seconds))
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = sys.modules["__main__"] = module
        try:
            spec.loader.exec_module(module)
            suite = unittest.defaultTestLoader.loadTestsFromModule(module)
        except BaseException as e:  # noqa: BLE001 - all is told
            found.write("(the file)", "broken", **described((type(e), e, e.__traceback__)))
            return 1
        kept = unittest.TestSuite()
        for test in tests_of(suite):
            if name_of(test) not in skip and not name_of(test).endswith(".test_session"):
                kept.addTest(test)
        kept.run(found)
        found.write("(the file)", "done")
    return 0


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    import os
    os._exit(code)
