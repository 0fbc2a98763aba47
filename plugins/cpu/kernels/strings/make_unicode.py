"""Writes unicode_tables.h: the general category and the script of every character.

    cd plugins/cpu/kernels/strings;  python make_unicode.py > unicode_tables.h   # with TensorFlow

Categories are those of Python's unicodedata; scripts, which it does not have, are asked of
TensorFlow's UnicodeScript op, and their names in patterns of its RE2, letter by letter, from the
words with which the characters' own names begin.  Runs of equal characters are told by their
first one.
"""
import os
import sys
import unicodedata

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

MOST = 0x110000
# Scripts whose characters do not begin with the script's name.
OTHER_NAMES = ["Common", "Inherited", "Han", "Hangul", "Canadian_Aboriginal", "Nko", "SignWriting",
               "Egyptian_Hieroglyphs", "Meroitic_Hieroglyphs", "Anatolian_Hieroglyphs"]
UNKNOWN = 103                          # ICU's number of "no script yet"


def runs(values):
    """[(first code, value)] of runs of equal values."""
    values = np.asarray(values)
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
    return [(int(s), int(values[s])) for s in starts]


def known(name):
    """Whether RE2 has a class of this name."""
    try:
        tf.strings.regex_full_match("a", "\\p{%s}" % name)
    except tf.errors.InvalidArgumentError:
        return False
    return True


def name_of(codes, cache):
    """RE2's name of the script of these characters."""
    for code in codes[:40]:
        words = unicodedata.name(chr(code), "").replace("-", " ").split()
        for n in range(min(len(words), 4), 0, -1):
            candidates = {"_".join(w.capitalize() for w in words[:n])} | set(OTHER_NAMES)
            for name in sorted(candidates):
                if name not in cache:
                    cache[name] = known(name)
                if cache[name] and bool(tf.strings.regex_full_match(chr(code), "\\p{%s}" % name)):
                    return name
    return None


def array(declaration, items):
    """A C array in lines of at most 100 columns."""
    print(f"static const {declaration}[] = {{")
    line = " "
    for item in items:
        if len(line) + len(item) + 2 > 100:
            print(line)
            line = " "
        line += f" {item},"
    print(line.rstrip(",") + "};")


def table(name, values):
    """Runs: the first code in the upper bits, the value in the lower 8."""
    array(f"uint32_t {name}", [f"0x{code << 8 | value:x}" for code, value in runs(values)])


def main():
    names = sorted({unicodedata.category(chr(code)) for code in range(MOST)})
    categories = [names.index(unicodedata.category(chr(code))) for code in range(MOST)]
    scripts = tf.strings.unicode_script(np.arange(MOST, dtype=np.int32)).numpy()
    scripts[scripts < 0] = 255
    assert scripts.max() <= 255
    cache, named = {}, []
    for script in sorted(set(scripts.tolist()) - {255, UNKNOWN}):
        name = name_of(np.flatnonzero(scripts == script).tolist(), cache)
        if name is None:
            print(f"no name for script {script}", file=sys.stderr)
        else:
            named.append((name, script))
    print("/* unicode_tables.h - written by make_unicode.py: general categories and scripts of\n"
          " * the Unicode Character Database (Copyright Unicode, Inc.; Unicode License v3), version\n"
          f" * {unicodedata.unidata_version} for categories.  A run of equal characters is\n"
          " * its first code << 8 | value. */")
    print("#ifndef PF_CPU_UNICODE_TABLES_H\n#define PF_CPU_UNICODE_TABLES_H\n#include <stdint.h>\n")
    print("static const char pf_category_names[][3] = {")
    print("  " + ", ".join(f'"{n}"' for n in names[:15]) + ",")
    print("  " + ", ".join(f'"{n}"' for n in names[15:]) + "};")
    array("struct { const char *name; uint8_t script; } pf_script_names",
          [f'{{"{n}", {s}}}' for n, s in sorted(named)])
    table("pf_category_runs", categories)
    table("pf_script_runs", scripts)
    print("#endif")


if __name__ == "__main__":
    main()
