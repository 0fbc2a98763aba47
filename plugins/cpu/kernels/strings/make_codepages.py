"""Writes unicode_codepages.h: encodings of one byte a character.

    cd plugins/cpu/kernels/strings;  python make_codepages.py > unicode_codepages.h   # with TensorFlow

The upper 128 characters of each are asked of TensorFlow, whose UnicodeDecode uses ICU.
"""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf  # noqa: E402

ISO = [f"ISO-8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15)]
WINDOWS = [f"windows-{n}" for n in range(1250, 1259)]
OTHERS = ["KOI8-R", "KOI8-U", "IBM437", "IBM850", "IBM852", "IBM855", "IBM866", "macintosh",
          "TIS-620"]
ALIASES = {"ISO-8859-9": ["latin5"], "ISO-8859-2": ["latin2"], "IBM437": ["cp437"],
           "IBM850": ["cp850"], "IBM866": ["cp866"], "IBM852": ["cp852"], "IBM855": ["cp855"]}
ALIASES |= {name: [f"cp{name[8:]}"] for name in WINDOWS}


def upper_half(name):
    """Code points of bytes 128 to 255; 0xfffd: none."""
    strings = [bytes([b]) for b in range(128, 256)]
    codes = tf.strings.unicode_decode(strings, name, errors="replace").to_list()
    lower = tf.strings.unicode_decode([bytes([b]) for b in range(128)], name).to_list()
    if lower != [[b] for b in range(128)] or any(len(c) != 1 for c in codes):
        return None
    return [c[0] for c in codes]


def main():
    print("/* unicode_codepages.h - written by make_codepages.py: the characters of bytes 128 to\n"
          " * 255 in encodings of one byte a character; 0xfffd: none. */")
    print("#ifndef PF_CPU_UNICODE_CODEPAGES_H\n#define PF_CPU_UNICODE_CODEPAGES_H")
    print("#include <stdint.h>\n")
    tables, names = [], []
    for name in ISO + WINDOWS + OTHERS:
        try:
            table = upper_half(name)
        except tf.errors.InvalidArgumentError:
            table = None
        if table is None:
            continue
        names += [(n, len(tables)) for n in [name, *ALIASES.get(name, [])]]
        tables.append(table)
    print("static const struct { const char *name; uint8_t page; } pf_codepage_names[] = {")
    for i in range(0, len(names), 4):
        print("  " + " ".join(f'{{"{n}", {p}}},' for n, p in names[i:i + 4]))
    print("};\nstatic const uint16_t pf_codepages[][128] = {")
    for table in tables:
        for i in range(0, 128, 12):
            start, part = "  {" if i == 0 else "   ", table[i:i + 12]
            print(start + ", ".join(hex(c) for c in part) + ("}," if i + 12 >= 128 else ","))
    print("};\n#endif")


if __name__ == "__main__":
    main()
