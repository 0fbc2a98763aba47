/* files.c - ReadFile, WriteFile, MatchingFiles.
 *
 * Invariants
 *   1. Statuses are those of TensorFlow's file system for the same errno (ck_errno).
 *   2. A file is read to its end, whatever size it said it has.
 *   3. Paths with a scheme go to the host (remote.h); "file://" is a local path.
 * Threads: the host's BLOCKING lane.
 */
#include "checkpoint/checkpoint.h"
#include "transfer/remote.h"
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

/* A path in C's form; one with a NUL inside names no file.  *remote: has a scheme. */
static pf_status path_at(pf_ctx *c, const DLTensor *t, int64_t i, char *path, int *remote) {
  pf_str s;
  PF_TRY(c->host->str_get(t, i, &s));
  int64_t skip = pf_local_prefix(s);
  s.data += skip, s.len -= skip;
  *remote = pf_is_remote(s);
  if (s.len >= CK_PATH || memchr(s.data, 0, (size_t)s.len))
    return PF_INVALID(c, "not a file name: %.*s", (int)PF_MIN(s.len, 200), s.data);
  memcpy(path, s.data, (size_t)s.len);
  path[s.len] = 0;
  return PF_OK;
}
static pf_status scalar(pf_ctx *c, int i, const char *what) {
  return c->in[i]->ndim == 0
             ? PF_OK
             : PF_INVALID(c, "%s must be scalar, but had shape: %s", what, PF_SHAPE(c->in[i]).s);
}

static pf_status read_rest(pf_ctx *c, int fd, const char *path, pf_bytes *b) {
  char piece[1 << 16];
  for (;;) {
    ssize_t k = read(fd, piece, sizeof piece);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return ck_errno(c, "read", path);
    if (k == 0) return PF_OK;
    pf_bytes_add(b, piece, k);
    if (b->failed) return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for the file %s", path);
    if (c->host->cancelled(c)) return pf_fail(c, PF_CANCELLED, "cancelled");
  }
}
static pf_str text(const char *path) { return (pf_str){path, (int64_t)strlen(path)}; }
static pf_status elsewhere(pf_ctx *c, pf_status st, const char *path, const char *why) {
  return st ? pf_failf(c, st, "%s; %s", path, why) : PF_OK;
}
static pf_status read_all(pf_ctx *c, const char *path, int remote, pf_bytes *b) {
  char why[400];
  FILE *f = NULL;
  int fd = -1;
  if (remote)
    PF_TRY(elsewhere(c, pf_remote_read(c->host, text(path), &f, why, sizeof why), path, why));
  else fd = open(path, O_RDONLY | O_CLOEXEC);
  if (!f && fd < 0) return ck_errno(c, "read", path);
  pf_status st = read_rest(c, f ? fileno(f) : fd, path, b);
  if (f) fclose(f);
  else close(fd);
  return st;
}
static pf_status read_file(pf_ctx *c, const void *state) {
  char path[CK_PATH];
  int remote;
  pf_bytes b = {0};
  (void)state;
  PF_TRY(scalar(c, 0, "Input filename tensor"));
  PF_TRY(path_at(c, c->in[0], 0, path, &remote));
  pf_status st = read_all(c, path, remote, &b);
  if (st == PF_OK) {
    DLTensor *y = c->host->output(c, 0, NULL, 0);
    st = y ? c->host->str_set(y, 0, (pf_str){b.data, b.n}) : PF_RESOURCE_EXHAUSTED;
  }
  pf_bytes_free(&b);
  return st;
}

/* Makes the folders above `path`; one that is there is fine. */
static pf_status make_folders(pf_ctx *c, char *path) {
  for (char *p = path + 1; *p; p++) {
    if (*p != '/') continue;
    *p = 0;
    int failed = mkdir(path, 0777) && errno != EEXIST && errno != EISDIR;
    pf_status st = failed ? ck_errno(c, "make the folder", path) : PF_OK;
    *p = '/';
    if (failed) return st;
  }
  return PF_OK;
}
static pf_status write_file(pf_ctx *c, const void *state) {
  char path[CK_PATH], why[400];
  int remote;
  pf_str bytes;
  (void)state;
  PF_TRY(scalar(c, 0, "Input filename tensor"));
  PF_TRY(scalar(c, 1, "Contents tensor"));
  PF_TRY(path_at(c, c->in[0], 0, path, &remote));
  PF_TRY(c->host->str_get(c->in[1], 0, &bytes));
  if (remote)
    return elsewhere(c, pf_remote_write(c->host, text(path), bytes, why, sizeof why), path, why);
  if (*path) PF_TRY(make_folders(c, path));
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return ck_errno(c, "write", path);
  pf_status st = ck_write_all(c, fd, path, bytes.data, bytes.len);
  if (close(fd) && st == PF_OK) st = ck_errno(c, "close", path);
  return st;
}

/* Adds what matches, each name ended by a NUL. */
static pf_status match(pf_ctx *c, const char *pattern, int remote, pf_bytes *names) {
  char why[400];
  FILE *f;
  glob_t found = {0};
  if (remote) {
    pf_status st = pf_remote_match(c->host, text(pattern), &f, why, sizeof why);
    if (st) return elsewhere(c, st, pattern, why);
    st = read_rest(c, fileno(f), pattern, names);
    fclose(f);
    return st;
  }
  int none = glob(pattern, 0, NULL, &found) == GLOB_NOSPACE;
  for (size_t i = 0; i < found.gl_pathc; i++)
    pf_bytes_add(names, found.gl_pathv[i], (int64_t)strlen(found.gl_pathv[i]) + 1);
  globfree(&found);
  return none ? pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for file names") : PF_OK;
}
static pf_status give_names(pf_ctx *c, const pf_bytes *names) {
  int64_t n = 0;
  if (names->failed) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for file names");
  for (int64_t i = 0; i < names->n; i++) n += !names->data[i];
  DLTensor *y = c->host->output(c, 0, &n, 1);
  PF_EXHAUSTED(y);
  const char *name = names->data;
  for (int64_t i = 0; i < n; i++, name += strlen(name) + 1)
    PF_TRY(c->host->str_set(y, i, text(name)));
  return PF_OK;
}
static pf_status matching_files(pf_ctx *c, const void *state) {
  char path[CK_PATH];
  int remote;
  pf_bytes names = {0};
  pf_status st = PF_OK;
  (void)state;
  if (c->in[0]->ndim > 1)
    return PF_INVALID(c, "Input patterns tensor must be scalar or vector, but had shape: %s",
                      PF_SHAPE(c->in[0]).s);
  for (int64_t i = 0, n = pf_numel(c->in[0]); i < n && !st; i++) {
    st = path_at(c, c->in[0], i, path, &remote);
    if (!st) st = match(c, path, remote, &names);
  }
  if (!st) st = give_names(c, &names);
  pf_bytes_free(&names);
  return st;
}

enum { FLAGS = PF_KERNEL_BLOCKING | PF_KERNEL_EXPENSIVE };
const pf_kernel *const files_kernels[] = {
  PF_CPU_FLAGS("ReadFile", NULL, FLAGS, .compute = read_file),
  PF_CPU_FLAGS("WriteFile", NULL, FLAGS, .compute = write_file),
  PF_CPU_FLAGS("MatchingFiles", NULL, FLAGS, .compute = matching_files), NULL};
