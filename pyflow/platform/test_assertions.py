"""The assertions that TensorFlow's TestCase has from absl.testing.absltest.

    self.assertLen(found, 3)
    self.assertBetween(loss, 0.0, 0.1)
    with self.assertRaisesWithLiteralMatch(ValueError, "no"): ...

Arguments and their order are absltest's; a failure says what was expected and what came, after
`msg`.
"""
import contextlib
import itertools
import json
import os
import re
import subprocess
import tempfile
from collections import abc


class Assertions:
    """Assertions of a unittest.TestCase beside its own."""

    def _fail_with(self, msg, text):
        self.fail(self._formatMessage(msg, text))

    # texts

    def assertEndsWith(self, actual, expected_end, msg=None):  # noqa: N802 - absltest's names
        """A text ends so."""
        if not actual.endswith(expected_end):
            self._fail_with(msg, f"{actual!r} does not end with {expected_end!r}")

    def assertNotEndsWith(self, actual, unexpected_end, msg=None):  # noqa: N802
        """A text does not end so."""
        if actual.endswith(unexpected_end):
            self._fail_with(msg, f"{actual!r} ends with {unexpected_end!r}")

    def assertRegexMatch(self, actual_str, regexes, message=None):  # noqa: N802
        """One of the regular expressions is found in a text, lines by themselves."""
        if isinstance(regexes, (str, bytes)):
            self.fail("regexes is one text; give a list, or use assertRegex")
        if not regexes:
            self.fail("no regexes were given")
        if not any(re.search(regex, actual_str, re.MULTILINE) for regex in regexes):
            self._fail_with(message, f"{actual_str!r} matches none of {regexes!r}")

    def assertContainsInOrder(self, strings, target, msg=None):  # noqa: N802
        """Texts lie in a text one after the other."""
        strings = [strings] if isinstance(strings, str) else strings
        at, before = 0, None
        for text in strings:
            found = target.find(text, at)
            if found < 0:
                after = f" after {before!r}" if before is not None else ""
                self._fail_with(msg, f"did not find {text!r}{after} in {target!r}")
            at, before = found + len(text), text

    def assertUrlEqual(self, a, b, msg=None):  # noqa: N802
        """Two URLs are one, whatever the order of their queries."""
        from urllib import parse
        one, other = parse.urlparse(a), parse.urlparse(b)
        self.assertEqual(one._replace(query="", params=""), other._replace(query="", params=""), msg)
        for part, text in (("params", ";"), ("query", "&")):
            self.assertEqual(sorted(getattr(one, part).split(text)),
                             sorted(getattr(other, part).split(text)), msg)

    def assertJsonEqual(self, first, second, msg=None):  # noqa: N802
        """Two texts of JSON say the same."""
        self.assertSameStructure(json.loads(first), json.loads(second), "first", "second", msg)

    # containers

    def assertEmpty(self, container, msg=None):  # noqa: N802
        """A container has nothing in it."""
        self._sized(container, msg)
        if len(container):
            self._fail_with(msg, f"{container!r} has length of {len(container)}.")

    def assertNotEmpty(self, container, msg=None):  # noqa: N802
        """A container has something in it."""
        self._sized(container, msg)
        if not len(container):
            self._fail_with(msg, f"{container!r} has length of 0.")

    def assertLen(self, container, expected_len, msg=None):  # noqa: N802
        """A container has so many elements."""
        self._sized(container, msg)
        if len(container) != expected_len:
            self._fail_with(msg, f"{container!r} has length of {len(container)}, expected "
                                 f"{expected_len}.")

    def _sized(self, container, msg):
        if not isinstance(container, abc.Sized):
            self._fail_with(msg, f"Expected a Sized object, got: {type(container).__name__!r}")

    def assertSequenceAlmostEqual(self, expected_seq, actual_seq, places=None,  # noqa: N802
                                  msg=None, delta=None):
        """Sequences of numbers are about the same, element by element."""
        if len(expected_seq) != len(actual_seq):
            self._fail_with(msg, f"Sequence size mismatch: {len(expected_seq)} vs "
                                 f"{len(actual_seq)}")
        for one, other in zip(expected_seq, actual_seq):
            self.assertAlmostEqual(one, other, places, msg, delta)

    def assertSequenceStartsWith(self, prefix, whole, msg=None):  # noqa: N802
        """A sequence, which is not empty, begins with an element or elements."""
        self.assertTrue(whole, msg)
        if not isinstance(prefix, abc.Sized):
            prefix = [prefix]
        if isinstance(prefix, abc.Set) or isinstance(whole, (abc.Set, abc.Mapping)):
            self._fail_with(msg, "sets and mappings have no order to begin with")
        self.assertEqual(list(prefix), list(whole[:len(prefix)]), msg)

    def assertContainsSubset(self, expected_subset, actual_set, msg=None):  # noqa: N802
        """All expected elements are among the actual ones."""
        missing = set(expected_subset) - set(actual_set)
        if missing:
            self._fail_with(msg, f"Missing elements {missing}\nExpected: {expected_subset}\n"
                                 f"Actual: {actual_set}")

    def assertNoCommonElements(self, expected_seq, actual_seq, msg=None):  # noqa: N802
        """Two collections have no element in common."""
        common = set(expected_seq) & set(actual_seq)
        if common:
            self._fail_with(msg, f"Common elements {common}\nExpected: {expected_seq}\n"
                                 f"Actual: {actual_seq}")

    def assertSameElements(self, expected_seq, actual_seq, msg=None):  # noqa: N802
        """Two collections have the same elements, however often and in any order."""
        if isinstance(expected_seq, str) or isinstance(actual_seq, str):
            self.fail("texts are given where collections are compared: use assertEqual")
        expected, actual = list(expected_seq), list(actual_seq)
        missing = [e for e in expected if e not in actual]
        unexpected = [e for e in actual if e not in expected]
        if missing or unexpected:
            self._fail_with(msg, f"Expected, but missing: {missing}; unexpected: {unexpected}")

    def assertContainsSubsequence(self, container, subsequence, msg=None):  # noqa: N802
        """Elements lie in a container in their order, others between them."""
        rest = iter(container)
        for at, element in enumerate(subsequence):
            if not any(element == other for other in rest):
                self._fail_with(msg, f"{list(subsequence)[:at + 1]} is not in {container!r} in "
                                     "that order")

    def assertContainsExactSubsequence(self, container, subsequence, msg=None):  # noqa: N802
        """Elements lie in a container in their order, nothing between them."""
        whole, part = list(container), list(subsequence)
        if not any(whole[i:i + len(part)] == part for i in range(len(whole) - len(part) + 1)):
            self._fail_with(msg, f"{part} does not lie in {container!r} as it is")

    def assertSameStructure(self, a, b, aname="a", bname="b", msg=None):  # noqa: N802
        """Two nests of dicts, lists and values are equal; a failure says where they differ."""
        problems = list(itertools.islice(_differences(a, b, aname, bname), 100))
        if problems:
            self._fail_with(msg, "; ".join(problems))

    # numbers and order

    def assertBetween(self, value, minv, maxv, msg=None):  # noqa: N802
        """minv <= value <= maxv."""
        if not minv <= value <= maxv:
            self._fail_with(msg, f"{value!r} unexpectedly not between {minv!r} and {maxv!r}")

    def assertTotallyOrdered(self, *groups, msg=None):  # noqa: N802
        """Elements of a group are equal, and smaller than those of later groups, by all operators."""
        for at, group in enumerate(groups):
            for one, other in itertools.product(group, repeat=2):
                self.assertTrue(one == other and one <= other and one >= other
                                and not one != other and not one < other and not one > other, msg)
            for small, big in itertools.product(group, itertools.chain(*groups[at + 1:])):
                self.assertTrue(small < big and small <= big and big > small and big >= small
                                and small != big and not small == big, msg)

    # errors and commands

    def assertRaisesWithLiteralMatch(self, expected_exception,  # noqa: N802
                                     expected_exception_message, callable_obj=None, *args,
                                     **kwargs):
        """The call, or the block, raises an exception whose text is exactly that."""
        return self._raised(expected_exception, lambda error: self.assertEqual(
            str(error), expected_exception_message), callable_obj, args, kwargs)

    def _raised(self, kind, check, function, args, kwargs):
        @contextlib.contextmanager
        def block():
            with self.assertRaises(kind) as caught:
                yield caught
            check(caught.exception)
        if function is None:
            return block()
        with block():
            function(*args, **kwargs)

    def assertCommandSucceeds(self, command, regexes=(b"",), env=None,  # noqa: N802
                              close_fds=True, msg=None):
        """A command, a list of words or a shell's line, exits with 0 and writes such errors."""
        self._command(command, regexes, env, close_fds, msg, lambda status: status == 0)

    def assertCommandFails(self, command, regexes, env=None, close_fds=True,  # noqa: N802
                           msg=None):
        """A command exits with another status than 0 and writes such errors."""
        self._command(command, regexes, env, close_fds, msg, lambda status: status != 0)

    def _command(self, command, regexes, env, close_fds, msg, expected):
        done = subprocess.run(command, shell=isinstance(command, str), env=env, close_fds=close_fds,
                              stderr=subprocess.STDOUT, stdout=subprocess.PIPE)
        if not expected(done.returncode):
            self._fail_with(msg, f"{command!r} ended with status {done.returncode}: "
                                 f"{done.stdout.decode(errors='replace')}")
        regexes = [regexes] if isinstance(regexes, (str, bytes)) else regexes
        self.assertRegexMatch(done.stdout, [
            regex.encode() if isinstance(regex, str) else regex for regex in regexes], msg)

    # files

    def create_tempdir(self, name=None):
        """A folder that goes with the test; `full_path` of what comes back, or the path itself."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, name) if name else folder.name
        os.makedirs(path, exist_ok=True)
        return _TempPath(path)

    def create_tempfile(self, file_path=None, content=None, mode="w", encoding="utf8",
                        errors="strict"):
        """A file that goes with the test, with text or bytes in it."""
        path = os.path.join(self.create_tempdir(), file_path or "file")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if isinstance(content, bytes):
            mode, encoding, errors = "wb", None, None
        with open(path, mode, encoding=encoding, errors=errors) as file:
            file.write(content or ("" if "b" not in mode else b""))
        return _TempPath(path)


class _TempPath(str):
    """A path, as absltest's temporary files have it."""

    @property
    def full_path(self):
        """The path."""
        return str(self)

    def read_text(self):
        """The file's text."""
        with open(self, encoding="utf8") as file:
            return file.read()

    def read_bytes(self):
        """The file's bytes."""
        with open(self, "rb") as file:
            return file.read()

    def write_text(self, text):
        """Other text for the file."""
        with open(self, "w", encoding="utf8") as file:
            file.write(text)


def _differences(a, b, aname, bname):
    """Where two nests differ, in words."""
    if isinstance(a, abc.Mapping) and isinstance(b, abc.Mapping):
        for key in a:
            if key not in b:
                yield f"{aname} has [{key!r}] but {bname} does not"
            else:
                yield from _differences(a[key], b[key], f"{aname}[{key!r}]", f"{bname}[{key!r}]")
        yield from (f"{aname} lacks [{key!r}] but {bname} has it" for key in b if key not in a)
    elif all(isinstance(x, abc.Sequence) and not isinstance(x, (str, bytes)) for x in (a, b)):
        for at, (one, other) in enumerate(zip(a, b)):
            yield from _differences(one, other, f"{aname}[{at}]", f"{bname}[{at}]")
        if len(a) != len(b):
            yield f"{aname} has {len(a)} elements, {bname} {len(b)}"
    elif a != b:
        yield f"{aname} is {a!r} but {bname} is {b!r}"
