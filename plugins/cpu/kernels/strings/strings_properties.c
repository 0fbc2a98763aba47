/* strings_properties.c - UnicodeScript, and the character classes of regular expressions.
 *
 * unicode_tables.h holds runs of characters of equal category or script: the first code << 8, and
 * the value.  A class is the union of the runs whose value it names.
 * Threads: parallel_for over characters.
 */
#include "strings/unicode.h"
#include "strings/unicode_tables.h"

enum { CODES = 0x110000 };

/* ---------------------------------------------------------------- lookups */
static uint8_t value_of(const uint32_t *runs, int64_t n, uint32_t code) {
  int64_t a = 0, b = n; /* the run of `code` is in [a, b) */
  while (b - a > 1) {
    int64_t m = a + (b - a) / 2;
    if (runs[m] >> 8 <= code) a = m;
    else b = m;
  }
  return (uint8_t)runs[a];
}
int32_t pf_unicode_script(int64_t code) {
  if (code < 0 || code >= CODES) return -1;
  return value_of(pf_script_runs, PF_LEN(pf_script_runs), (uint32_t)code);
}

/* ---------------------------------------------------------------- classes */
typedef struct { uint8_t wanted[256]; } wanted_values;
static void give_runs(const uint32_t *runs, int64_t n, const wanted_values *w, pf_range_taker take,
                      void *arg) {
  int32_t from = -1; /* where the wanted characters at hand began */
  for (int64_t i = 0; i <= n; i++) {
    int32_t code = i < n ? (int32_t)(runs[i] >> 8) : CODES;
    int wanted = i < n && w->wanted[runs[i] & 0xff];
    if (from >= 0 && !wanted) take(arg, from, code - 1);
    from = wanted ? from < 0 ? code : from : -1;
  }
}
static int is_name(pf_str s, const char *name) {
  return s.len == (int64_t)strlen(name) && !memcmp(s.data, name, (size_t)s.len);
}
int pf_unicode_class(pf_str name, pf_range_taker take, void *arg) {
  wanted_values w = {{0}};
  int found = 0;
  if (is_name(name, "Any")) return take(arg, 0, CODES - 1), 1;
  for (int64_t i = 0; i < PF_LEN(pf_category_names); i++) {
    const char *own = pf_category_names[i];
    int same = is_name(name, own) || (name.len == 1 && name.data[0] == own[0]);
    if (same && strcmp(own, "Cn")) w.wanted[i] = 1, found = 1; /* RE2 has no unassigned ones */
  }
  if (found) return give_runs(pf_category_runs, PF_LEN(pf_category_runs), &w, take, arg), 1;
  for (int64_t i = 0; i < PF_LEN(pf_script_names); i++)
    if (is_name(name, pf_script_names[i].name)) w.wanted[pf_script_names[i].script] = 1, found = 1;
  if (found) give_runs(pf_script_runs, PF_LEN(pf_script_runs), &w, take, arg);
  return found;
}

/* ---------------------------------------------------------------- UnicodeScript */
typedef struct {
  const int32_t *codes;
  int32_t *scripts;
} script_job;
static void script_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const script_job *j = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) j->scripts[i] = pf_unicode_script(j->codes[i]);
}
static pf_status unicode_script(pf_ctx *c, const void *state) {
  (void)state;
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  PF_EXHAUSTED(y);
  script_job j = {PF_DATA(const int32_t, c->in[0]), PF_DATA(int32_t, y)};
  return pf_parallel(c, pf_numel(y), PF_GRAIN, script_range, &j);
}

const pf_kernel *const strings_properties_kernels[] = {
  PF_CPU("UnicodeScript", NULL, .compute = unicode_script), NULL};
