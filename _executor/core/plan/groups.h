/* The workspace of groups.pyx (which nodes share a group) and programs.pyx (what a group
 * becomes). */
#ifndef PF_GROUPS_H
#define PF_GROUPS_H
#include "plan/compile.h"

enum { PF_GROUP_MESSAGE = 1200 };

/* what the nodes of a group have in common */
typedef struct pf_group_key {
  int32_t frame, guard, device_class, same_hash;
  const void *device;
} pf_group_key;

/* sorted sets of conditions, each once; set 0 is empty */
typedef struct pf_guard_sets {
  int32_t n, room, n_buckets;
  int64_t **atoms;
  int32_t *count;
  int32_t *same_hash;
  int32_t *buckets;
} pf_guard_sets;

/* a compiled group */
typedef struct pf_group_install {
  struct pf_group_install *next;
  pf_group group;
  void *program;
  int32_t n_consts, rep;
  pf_signature *sig;
} pf_group_install;

typedef struct pf_grouping {
  pf_comp *c;
  const pf_compiler_entry *by;
  pf_group_api *api;
  pf_guard_sets sets;
  int32_t *guard; /* node -> set of conditions under which it is alive */
  int32_t n_keys, keys_room, n_buckets;
  pf_group_key *keys;
  int32_t *buckets;
  int32_t *key;    /* node -> key; -1: no candidate */
  int32_t *ready;  /* key -> first candidate that is ready; -1 */
  int32_t *next;   /* ... the next one */
  int32_t *active; /* ring of keys with ready candidates */
  int32_t first_active, n_active;
  uint8_t *is_active;
  int32_t *waits; /* node -> predecessors not DONE (in a wave: not run) */
  int32_t *plain; /* stack of ready nodes that are no candidates */
  int32_t n_plain;
  int32_t *wave; /* nodes of this wave, in order */
  int32_t n_wave, wave_id;
  int32_t *in_wave; /* node -> wave_id */
  int32_t *up;      /* union-find within the wave */
  uint8_t *turns;   /* node -> times postponed */
  uint8_t *open;    /* root -> 1: somebody outside waits for it, 2: more of its key reads it */
  int32_t *order;   /* DONE nodes */
  int32_t n_order;
  int32_t *part; /* commit: members of one root, chained */
  int32_t *part_last;
  int32_t *local;     /* node -> local number in the group being compiled; -1 */
  int32_t *rep;       /* node -> the node that replaces it; -1 */
  int32_t *first_out; /* replaced node -> its entry in out_index */
  int32_t *out_index; /* (replaced node, output) -> output of rep; -1 */
  int32_t n_out_index;
  int32_t *in_head;           /* node -> 1 + the last group input that comes from it; 0 */
  int32_t *in_same;           /* group input -> 1 + the one before it from the same node */
  pf_group_install *installs; /* groups that were compiled, last first */
} pf_grouping;

/* programs.pyx */
int32_t pf_group_is(const pf_kernel_entry *k); /* 1: the kernel runs a group */
void pf_group_fill_api(pf_group_api *api);
/* the part of a wave that `first` leads */
pf_status pf_group_compile(pf_grouping *w, int32_t first);
pf_status pf_group_install_all(pf_grouping *w); /* all that were compiled, into the graph */
void pf_group_release(pf_grouping *w);          /* ... given up */
#endif
