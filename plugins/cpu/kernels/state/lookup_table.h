/* lookup_table.h - the hash map of lookup_table.c: runs of bytes to runs of bytes.
 *
 * Invariants: a slot is free (bytes NULL, !gone), taken, or was taken (gone); free slots end a
 * probe.  Threads: the caller holds `guard`.
 */
#ifndef PF_CPU_LOOKUP_TABLE_H
#define PF_CPU_LOOKUP_TABLE_H
#include <pthread.h>
#include <stdlib.h>
#include "base/common.h"
#include "base/hash.h"

typedef struct {
  uint64_t hash;
  char *bytes;
  int64_t key_n, value_n;
  int gone;
} pf_entry;
typedef struct {
  pthread_mutex_t guard;
  int32_t refs, key_type, value_type, changes, ready;
  pf_entry *entries;
  int64_t slots, used, n; /* a power of two, or 0; not free; taken */
} pf_table;

/* the entry of a key, or the free slot that ends its probe */
PF_LOCAL pf_entry *pf_table_slot(const pf_table *t, pf_str key, uint64_t hash) {
  for (uint64_t i = hash;; i++) {
    pf_entry *e = &t->entries[i & (uint64_t)(t->slots - 1)];
    if (!e->bytes && !e->gone) return e;
    if (e->bytes && e->hash == hash && e->key_n == key.len &&
        !memcmp(e->bytes, key.data, (size_t)key.len))
      return e;
  }
}
PF_LOCAL int pf_table_find(const pf_table *t, pf_str key, pf_str *value) {
  if (!t->slots) return 0;
  const pf_entry *e = pf_table_slot(t, key, pf_fingerprint64(key.data, (uint64_t)key.len));
  if (e->bytes) *value = (pf_str){e->bytes + e->key_n, e->value_n};
  return e->bytes != NULL;
}
PF_LOCAL int pf_table_grow(pf_table *t) {
  pf_table wide = *t;
  wide.slots = PF_MAX(t->n * 4, 16);
  while (wide.slots & (wide.slots - 1)) wide.slots += wide.slots & -wide.slots;
  wide.entries = calloc((size_t)wide.slots, sizeof *wide.entries);
  if (!wide.entries) return 0;
  for (int64_t i = 0; i < t->slots; i++) {
    pf_entry *e = &t->entries[i];
    if (e->bytes) *pf_table_slot(&wide, (pf_str){e->bytes, e->key_n}, e->hash) = *e;
  }
  wide.used = t->n;
  free(t->entries);
  *t = wide;
  return 1;
}
/* 0: no memory */
PF_LOCAL int pf_table_put(pf_table *t, pf_str key, pf_str value) {
  uint64_t hash = pf_fingerprint64(key.data, (uint64_t)key.len);
  if (4 * (t->used + 1) > 3 * t->slots && !pf_table_grow(t)) return 0;
  char *bytes = malloc((size_t)(key.len + value.len) + 1);
  if (!bytes) return 0;
  if (key.len) memcpy(bytes, key.data, (size_t)key.len);
  if (value.len) memcpy(bytes + key.len, value.data, (size_t)value.len);
  pf_entry *e = pf_table_slot(t, key, hash);
  if (!e->bytes) t->used++, t->n++;
  free(e->bytes);
  *e = (pf_entry){hash, bytes, key.len, value.len, 0};
  return 1;
}
PF_LOCAL void pf_table_remove(pf_table *t, pf_str key) {
  if (!t->slots) return;
  pf_entry *e = pf_table_slot(t, key, pf_fingerprint64(key.data, (uint64_t)key.len));
  if (!e->bytes) return;
  free(e->bytes);
  *e = (pf_entry){.gone = 1};
  t->n--;
}
PF_LOCAL void pf_table_clear(pf_table *t) {
  for (int64_t i = 0; i < t->slots; i++) free(t->entries[i].bytes);
  free(t->entries);
  t->entries = NULL;
  t->slots = t->used = t->n = 0;
}
#endif
