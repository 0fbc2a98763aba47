/* remote.h - paths with a scheme, "memory://x", through the host's "pyflow.files/1".
 *
 * Invariant: bytes go by an unnamed local file, which is gone when it is closed.
 * Threads: any; the host's functions block.
 */
#ifndef PF_CPU_REMOTE_H
#define PF_CPU_REMOTE_H
#include "base/common.h"

int pf_is_remote(pf_str path);        /* has a scheme, and that is not "file" */
int64_t pf_local_prefix(pf_str path); /* how much of a local path to leave out: "file://" */
/* The file's bytes in *f, from its beginning on; else `why`, and the status. */
pf_status pf_remote_read(const pf_host *host, pf_str path, FILE **f, char *why, int64_t room);
pf_status pf_remote_write(const pf_host *host, pf_str path, pf_str bytes, char *why, int64_t room);
/* Paths that match, each ended by a NUL */
pf_status pf_remote_match(const pf_host *host, pf_str pattern, FILE **f, char *why, int64_t room);
#endif
