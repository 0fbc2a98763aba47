"""plugins/cpu/kernels/base/machine.h alone knows processors: their makers, features asked at run time and cache sizes."""
import pathlib
import re

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "plugins" / "cpu" / "kernels"
MACHINE = KERNELS / "base" / "machine.h"
OTHERS = {p.relative_to(KERNELS).as_posix(): p.read_text(encoding="utf-8")
          for p in sorted(KERNELS.rglob("*.[ch]")) if p != MACHINE}
ASKS = re.compile(r"cpuid|__builtin_cpu_|pf_machine_intel|\bpf_is_(?:intel|amd)\b|_SC_LEVEL\d|getauxval|/proc/cpuinfo")
# What is named like a cache or a size of what is kept in one, and given as a plain number.
SIZE = re.compile(r"\b(\w*(?:BYTES|NEAR|CACHE|STREAM|SHARE|SLAB|PANEL|LARGE|FETCHED|AHEAD|PAST\w*|L[123])\w*)\)? = "
                  r"((?:\d+ (?:<<|\*) [\d *]+|\d{4,}))(?! *\*)")
SMALLEST = 8192     # below are pages, rows, and how far ahead is fetched
NO_CACHES = {       # limits of what is asked for
    ("strings/strings_format.c", "MOST_BYTES"): "the longest string",
    ("rnn/ctc.c", "ALPHA_BYTES"): "the most memory asked for",
    ("base/packed.h", "PF_MAPPED_BYTES"): "from which on memory goes back to the system at once",
}


def number(text):
    left, *rest = re.split(r" (?:<<|\*) ", text)
    value = int(left)
    for right in rest:
        value = value << int(right) if "<<" in text else value * int(right)
    return value


def code(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def test_no_other_file_asks_the_processor():
    assert ASKS.search(MACHINE.read_text(encoding="utf-8")) and len(OTHERS) > 180
    asking = {name: found[0] for name, text in OTHERS.items() if (found := ASKS.search(code(text)))}
    assert asking == {}, "put the question into base/machine.h, named after the property it is about"


def test_no_other_file_has_the_size_of_a_cache():
    found = {(name, match[1]): match[2] for name, text in OTHERS.items()
             for match in SIZE.finditer(code(text)) if number(match[2]) >= SMALLEST}
    assert found.keys() == NO_CACHES.keys(), "say it as a part or a multiple of base/machine.h's sizes"


def test_the_search_finds_them():
    """In lines as they stood in the kernels."""
    for line in ("enum { STRIP_BYTES = 384 * 1024, SLOT = 1 };", "enum { X = 1, L2_BYTES = 5 << 18 };",
                 "enum { TILE(NEAR) = 128 << 10 };", "enum { LONGEST_PAST = 65536 };"):
        assert SIZE.search(line) and number(SIZE.search(line)[2]) >= SMALLEST, line
    assert ASKS.search('if (__builtin_cpu_supports("avx2"))') and ASKS.search("pf_is_intel()")


def test_kernels_use_its_sizes_and_properties():
    text = MACHINE.read_text(encoding="utf-8")
    names = set(re.findall(r"\b(pf_has_\w+)\(", text)) | set(re.findall(r"^  (PF_\w+) =", text, re.M))
    unused = {name for name in names if not any(re.search(rf"\b{name}\b", other) for other in OTHERS.values())}
    assert len(names) >= 10 and not unused
