/* lookup_table.c - HashTableV2, MutableHashTableV2, InitializeTableV2,
 * InitializeTableFromTextFileV2, LookupTableFindV2, LookupTableInsertV2, LookupTableRemoveV2,
 * LookupTableImportV2, LookupTableExportV2, LookupTableSizeV2.
 *
 *     EMPTY -> READY [InitializeTable..., LookupTableImport]   of a HashTable; a mutable one is
 *                                                              READY from the start
 *
 * Method: open addressing with linear probing; keys and values are runs of bytes, so that numbers
 * and strings are stored alike.
 *
 * Invariants
 *   1. `used` counts slots that hold or held an entry; it stays below 3/4 of the slots, so that
 *      every probe ends.
 *   2. A HashTable is filled once; filling it again with the same entries does nothing.
 * Threads: `guard` protects all fields; references are atomic.
 */
#include <errno.h>
#include <pthread.h>
#include "base/bytes.h"
#include "state/lookup_table.h"

static void table_unref(void *obj) {
  pf_table *t = obj;
  if (__atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL)) return;
  pf_table_clear(t);
  pthread_mutex_destroy(&t->guard);
  free(t);
}
static const pf_type table_type = {sizeof(pf_type), 0, "pyflow.LookupTable", table_unref, NULL};

/* ---------------------------------------------------------------- making tables */
typedef struct {
  pf_str container, shared_name;
  int32_t key_dtype, value_dtype, changes;
} table_state;
static int is_value_type(int32_t type) {
  return type == PF_STRING || (pf_type_size(type) >= 1 && pf_type_size(type) <= 8 &&
                               type != PF_RESOURCE && type != PF_VARIANT);
}
static pf_status make_table(pf_ctx *c, void *arg, void **obj) {
  const table_state *s = arg;
  pf_table *t = calloc(1, sizeof *t);
  if (!t) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a table");
  pthread_mutex_init(&t->guard, NULL);
  t->refs = 1;
  t->key_type = s->key_dtype, t->value_type = s->value_dtype;
  t->changes = t->ready = s->changes;
  *obj = t;
  return PF_OK;
}
static pf_status table_of(pf_ctx *c, pf_table **t) {
  void *obj;
  PF_TRY(c->host->resource_get(c, 0, &table_type, &obj));
  *t = obj;
  return PF_OK;
}
static pf_status open_table(pf_ctx *c, const void *state) {
  table_state *s = (table_state *)state;
  pf_str name = s->shared_name.len ? s->shared_name : c->host->node_name(c);
  if ((s->key_dtype != PF_STRING && s->key_dtype != PF_INT64 && s->key_dtype != PF_INT32) ||
      !is_value_type(s->value_dtype))
    return PF_INVALID(c,
                      "tables map string, int64 or int32 to strings or numbers of up to 8 "
                      "bytes, not %s to %s",
                      pf_type_name(s->key_dtype), pf_type_name(s->value_dtype));
  return c->host->resource_output(c, 0, s->container, name, &table_type, make_table, s);
}
static pf_status mark_mutable(pf_ctx *c, void *state) {
  (void)c;
  ((table_state *)state)->changes = 1;
  return PF_OK;
}

/* ---------------------------------------------------------------- tensors and bytes */
static pf_status bytes_at(pf_ctx *c, const DLTensor *x, int32_t type, int64_t i, pf_str *s) {
  if (type == PF_STRING) return c->host->str_get(x, i, s);
  int64_t size = pf_type_size(type);
  *s = (pf_str){PF_DATA(const char, x) + i * size, size};
  return PF_OK;
}
static pf_status put_bytes(pf_ctx *c, DLTensor *y, int32_t type, int64_t i, pf_str s) {
  if (type == PF_STRING) return c->host->str_set(y, i, s);
  memcpy(PF_DATA(char, y) + i * pf_type_size(type), s.data, (size_t)s.len);
  return PF_OK;
}
static pf_status check_types(pf_ctx *c, const pf_table *t, int32_t key, int32_t value) {
  if (key != t->key_type || (value && value != t->value_type))
    return PF_INVALID(c, "Conflicting key/value dtypes %s->%s with %s->%s for the table",
                      pf_type_name(key), value ? pf_type_name(value) : "any",
                      pf_type_name(t->key_type), pf_type_name(t->value_type));
  return PF_OK;
}
static pf_status check_pairs(pf_ctx *c) {
  if (!pf_same_shape(c->in[1], c->in[2]))
    return PF_INVALID(c, "keys %s and values %s must have equal shapes", PF_SHAPE(c->in[1]).s,
                      PF_SHAPE(c->in[2]).s);
  return PF_OK;
}
static pf_status no_memory(pf_ctx *c) {
  return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a table's entries");
}

/* ---------------------------------------------------------------- filling */
/* with the guard: entry (key, value) of a table that is filled once */
static pf_status add_once(pf_ctx *c, pf_table *t, pf_str key, pf_str value) {
  pf_str old;
  if (pf_table_find(t, key, &old)) {
    if (old.len == value.len && !memcmp(old.data, value.data, (size_t)old.len)) return PF_OK;
    return t->ready ? pf_fail(c, PF_FAILED_PRECONDITION,
                              "Table was already initialized with different data.")
                    : PF_INVALID(c, "HashTable has different values for same key");
  }
  if (t->ready)
    return pf_fail(c, PF_FAILED_PRECONDITION, "Table was already initialized with different data.");
  return pf_table_put(t, key, value) ? PF_OK : no_memory(c);
}
static pf_status add_all(pf_ctx *c, pf_table *t, int once) {
  for (int64_t i = 0, n = pf_numel(c->in[1]); i < n; i++) {
    pf_str key, value;
    PF_TRY(bytes_at(c, c->in[1], t->key_type, i, &key));
    PF_TRY(bytes_at(c, c->in[2], t->value_type, i, &value));
    if (once) PF_TRY(add_once(c, t, key, value));
    else if (!pf_table_put(t, key, value)) return no_memory(c);
  }
  return PF_OK;
}
enum { INITIALIZE, INSERT, IMPORT };
static pf_status fill(pf_ctx *c, int how) {
  pf_table *t;
  PF_TRY(table_of(c, &t));
  PF_TRY(check_types(c, t, c->in_type[1], c->in_type[2]));
  PF_TRY(check_pairs(c));
  if (how == INITIALIZE && c->in[1]->ndim != 1)
    return PF_INVALID(c, "Keys must be a vector, but received shape %s", PF_SHAPE(c->in[1]).s);
  if (how == INSERT && !t->changes)
    return pf_fail(c, PF_UNIMPLEMENTED, "this table is filled by its initializer alone");
  if (how == INITIALIZE && t->changes)
    return pf_fail(c, PF_UNIMPLEMENTED, "a mutable table has no initializer");
  pthread_mutex_lock(&t->guard);
  if (how == IMPORT && t->changes) pf_table_clear(t);
  int before = t->ready;
  pf_status st = add_all(c, t, !t->changes);
  if (!st) t->ready = 1;
  else if (!before) pf_table_clear(t);
  pthread_mutex_unlock(&t->guard);
  return st;
}
static pf_status initialize(pf_ctx *c, const void *s) { return (void)s, fill(c, INITIALIZE); }
static pf_status insert(pf_ctx *c, const void *s) { return (void)s, fill(c, INSERT); }
static pf_status import(pf_ctx *c, const void *s) { return (void)s, fill(c, IMPORT); }

/* ---------------------------------------------------------------- text files */
typedef struct {
  int64_t key_index, value_index, vocab_size, offset;
  pf_str delimiter;
} file_state;
enum { LINE_NUMBER = -1, WHOLE_LINE = -2 };
/* column `index` of a line as bytes of `type` (numbers in `room`); 0: it is none */
static int field_of(pf_str line, int64_t number, int64_t index, char between, int32_t type,
                    char *room, pf_str *s) {
  *s = line;
  for (int64_t k = 0; k < index; k++) {
    const char *next = memchr(s->data, between, (size_t)s->len);
    if (!next) return 0;
    s->len -= next + 1 - s->data, s->data = next + 1;
  }
  const char *end = index >= 0 ? memchr(s->data, between, (size_t)s->len) : NULL;
  if (end) s->len = end - s->data;
  if (type == PF_STRING) return index != LINE_NUMBER;
  char text[64];
  if (index == LINE_NUMBER) snprintf(text, sizeof text, "%" PRId64, number);
  else if (s->len < 1 || s->len >= (int64_t)sizeof text) return 0;
  else memcpy(text, s->data, (size_t)s->len), text[s->len] = 0;
  char *rest;
  errno = 0;
  int64_t whole = type == PF_INT64 || type == PF_INT32 ? strtoll(text, &rest, 10) : 0;
  double real = type == PF_FLOAT32 || type == PF_FLOAT64 ? strtod(text, &rest) : 0;
  float narrow = (float)real;
  int32_t small = (int32_t)whole;
  const void *from = type == PF_INT64     ? (const void *)&whole
                     : type == PF_INT32   ? (void *)&small
                     : type == PF_FLOAT64 ? (void *)&real
                     : type == PF_FLOAT32 ? (void *)&narrow
                                          : NULL;
  if (!from || *rest || rest == text || errno || (type == PF_INT32 && small != whole)) return 0;
  memcpy(room, from, (size_t)pf_type_size(type));
  *s = (pf_str){room, pf_type_size(type)};
  return 1;
}
static pf_status read_lines(pf_ctx *c, const file_state *s, pf_table *t, FILE *file) {
  char *line = NULL, a[8], b[8];
  size_t room = 0;
  int64_t number = 0;
  pf_status st = PF_OK;
  char between = s->delimiter.len ? s->delimiter.data[0] : '\t';
  for (; !st && (s->vocab_size < 0 || number < s->vocab_size); number++) {
    ssize_t n = getline(&line, &room, file);
    if (n < 0) break;
    pf_str text = {line, n - (n > 0 && line[n - 1] == '\n')}, key, value;
    if (text.len && text.data[text.len - 1] == '\r') text.len--;
    int64_t count = number + s->offset;
    if (!field_of(text, count, s->key_index, between, t->key_type, a, &key) ||
        !field_of(text, count, s->value_index, between, t->value_type, b, &value))
      st = PF_INVALID(c,
                      "Invalid content in line %" PRId64 ": no columns %" PRId64 " and %" PRId64
                      " of types %s and %s",
                      number, s->key_index, s->value_index, pf_type_name(t->key_type),
                      pf_type_name(t->value_type));
    else st = add_once(c, t, key, value);
  }
  free(line);
  if (!st && s->vocab_size >= 0 && number < s->vocab_size)
    st = PF_INVALID(c, "Invalid vocab_size: expected %" PRId64 " lines but got %" PRId64,
                    s->vocab_size, number);
  return st;
}
static pf_status initialize_from_file(pf_ctx *c, const void *state) {
  const file_state *s = state;
  pf_table *t;
  pf_str path;
  char name[4096];
  PF_TRY(table_of(c, &t));
  if (c->in[1]->ndim > 1 || pf_numel(c->in[1]) != 1)
    return PF_INVALID(c, "filename should be a single string, got shape %s", PF_SHAPE(c->in[1]).s);
  if (s->delimiter.len > 1)
    return PF_INVALID(c, "delimiter should be only 1 char, got %" PRId64, s->delimiter.len);
  if (t->changes) return pf_fail(c, PF_UNIMPLEMENTED, "a mutable table has no initializer");
  PF_TRY(c->host->str_get(c->in[1], 0, &path));
  if (path.len >= (int64_t)sizeof name || memchr(path.data, 0, (size_t)path.len))
    return PF_INVALID(c, "filename is no path");
  memcpy(name, path.data, (size_t)path.len), name[path.len] = 0;
  FILE *file = fopen(name, "rb");
  if (!file) return pf_failf(c, PF_NOT_FOUND, "%s: %s", name, strerror(errno));
  pthread_mutex_lock(&t->guard);
  int before = t->ready;
  pf_status st = read_lines(c, s, t, file);
  if (!st) t->ready = 1;
  else if (!before) pf_table_clear(t);
  pthread_mutex_unlock(&t->guard);
  fclose(file);
  return st;
}

/* ---------------------------------------------------------------- asking */
static pf_status find(pf_ctx *c, const void *state) {
  pf_table *t;
  (void)state;
  PF_TRY(table_of(c, &t));
  PF_TRY(check_types(c, t, c->in_type[1], c->in_type[2]));
  if (c->in[2]->ndim != 0)
    return PF_INVALID(c, "default_value must be a scalar, got shape %s", PF_SHAPE(c->in[2]).s);
  DLTensor *y = pf_output_like(c, 0, c->in[1]);
  PF_EXHAUSTED(y);
  pf_status st = PF_OK;
  pthread_mutex_lock(&t->guard);
  if (!t->ready) st = pf_fail(c, PF_FAILED_PRECONDITION, "Table not initialized.");
  for (int64_t i = 0, n = pf_numel(c->in[1]); i < n && !st; i++) {
    pf_str key, value;
    st = bytes_at(c, c->in[1], t->key_type, i, &key);
    if (!st && !pf_table_find(t, key, &value)) st = bytes_at(c, c->in[2], t->value_type, 0, &value);
    if (!st) st = put_bytes(c, y, t->value_type, i, value);
  }
  pthread_mutex_unlock(&t->guard);
  return st;
}
static pf_status remove_keys(pf_ctx *c, const void *state) {
  pf_table *t;
  (void)state;
  PF_TRY(table_of(c, &t));
  PF_TRY(check_types(c, t, c->in_type[1], 0));
  if (!t->changes) return pf_fail(c, PF_UNIMPLEMENTED, "entries leave mutable tables alone");
  pf_status st = PF_OK;
  pthread_mutex_lock(&t->guard);
  for (int64_t i = 0, n = pf_numel(c->in[1]); i < n && !st; i++) {
    pf_str key;
    st = bytes_at(c, c->in[1], t->key_type, i, &key);
    if (!st) pf_table_remove(t, key);
  }
  pthread_mutex_unlock(&t->guard);
  return st;
}
static pf_status size_of(pf_ctx *c, const void *state) {
  pf_table *t;
  (void)state;
  PF_TRY(table_of(c, &t));
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  pthread_mutex_lock(&t->guard);
  PF_DATA(int64_t, y)[0] = t->n;
  pthread_mutex_unlock(&t->guard);
  return PF_OK;
}
static pf_status export(pf_ctx *c, const void *state) {
  pf_table *t;
  (void)state;
  PF_TRY(table_of(c, &t));
  PF_TRY(check_types(c, t, c->out_type[0], c->out_type[1]));
  pthread_mutex_lock(&t->guard);
  DLTensor *keys = c->host->output(c, 0, &t->n, 1), *values = c->host->output(c, 1, &t->n, 1);
  pf_status st = keys && values ? PF_OK : PF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0, at = 0; i < t->slots && !st; i++) {
    const pf_entry *e = &t->entries[i];
    if (!e->bytes) continue;
    st = put_bytes(c, keys, t->key_type, at, (pf_str){e->bytes, e->key_n});
    if (!st)
      st = put_bytes(c, values, t->value_type, at, (pf_str){e->bytes + e->key_n, e->value_n});
    at++;
  }
  pthread_mutex_unlock(&t->guard);
  return st;
}

#define TABLE(op, ...) PF_CPU(op, NULL, .compute = open_table, .state_size = sizeof(table_state), \
  .attrs = PF_ATTRS(PF_ATTR(table_state, PF_ATTR_STRING, container), \
                    PF_ATTR(table_state, PF_ATTR_STRING, shared_name), \
                    PF_ATTR(table_state, PF_ATTR_TYPE, key_dtype), \
                    PF_ATTR(table_state, PF_ATTR_TYPE, value_dtype)), __VA_ARGS__)
#define INT(name) PF_ATTR(file_state, PF_ATTR_INT, name)
const pf_kernel *const lookup_table_kernels[] = {
  TABLE("HashTableV2", .init = NULL),
  TABLE("MutableHashTableV2", .init = mark_mutable),
  PF_CPU_FLAGS("InitializeTableV2", NULL, 0, .compute = initialize),
  PF_CPU_FLAGS("InitializeTableFromTextFileV2", NULL, PF_KERNEL_BLOCKING,
               .compute = initialize_from_file, .state_size = sizeof(file_state),
               .attrs =
                   PF_ATTRS(INT(key_index), INT(value_index), INT(vocab_size),
                            PF_REF(pf_attr, "offset", PF_ATTR_INT, offsetof(file_state, offset)),
                            PF_ATTR(file_state, PF_ATTR_STRING, delimiter))),
  PF_CPU_FLAGS("LookupTableFindV2", NULL, 0, .compute = find),
  PF_CPU_FLAGS("LookupTableInsertV2", NULL, 0, .compute = insert),
  PF_CPU_FLAGS("LookupTableRemoveV2", NULL, 0, .compute = remove_keys),
  PF_CPU_FLAGS("LookupTableImportV2", NULL, 0, .compute = import),
  PF_CPU_FLAGS("LookupTableExportV2", NULL, 0, .compute = export),
  PF_CPU_FLAGS("LookupTableSizeV2", NULL, 0, .compute = size_of),
  NULL};
