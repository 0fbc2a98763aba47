/* What register.pyx (checks a plugin's tables) and registry.pyx (keeps and offers them) share. */
#ifndef PF_REGISTRY_H
#define PF_REGISTRY_H
#include "host/host.h"
#include "host/isa.h"

typedef struct {
  pf_str attr;
  int32_t n, pad;
  const int32_t *types;
} pf_constraint;
typedef struct {
  int32_t n, pad;
  pf_constraint *all;
  const char *text;
} pf_where;

typedef struct pf_plugin_entry {
  pf_plugin plugin; /* full-size copy */
  const char *origin;
  pf_arena arena;               /* its kernels' copies; written while registering only */
  struct pf_plugin_entry *next; /* newest first */
} pf_plugin_entry;

/* registry.pyx */
pf_status pf_registry_claim(pf_plugin_entry *p, pf_error *err); /* the id is this plugin's now */
void pf_registry_forget(pf_plugin_entry *p);
pf_status pf_registry_add_kernel(pf_kernel_entry *e);
pf_status pf_registry_add_device(const pf_device *d, int32_t ordinal);
pf_status pf_registry_add_compiler(pf_compiler_entry *e); /* kept for ever */
#endif
