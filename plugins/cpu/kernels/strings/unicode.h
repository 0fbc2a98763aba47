/* unicode.h - categories, scripts and character classes by name (strings_properties.c).
 * Threads: pure functions of constant tables. */
#ifndef PF_CPU_UNICODE_H
#define PF_CPU_UNICODE_H
#include "base/common.h"

int32_t pf_unicode_script(int64_t code); /* ICU's number of the script; -1: no code point */
typedef void (*pf_range_taker)(void *arg, int32_t lo, int32_t hi);
/* the characters of a general category ("Lu", "L"), a script ("Greek") or "Any", in order, to
 * `take`; 0: there is no class of this name */
int pf_unicode_class(pf_str name, pf_range_taker take, void *arg);
#endif
