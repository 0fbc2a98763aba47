/* remote.c - paths with a scheme: remote.h. */
#include "transfer/remote.h"
#include <errno.h>
#include <unistd.h>

/* The length of "scheme" in "scheme://", RFC 3986's; 0: there is none. */
static int64_t scheme(pf_str p) {
  int64_t n = 0;
  while (n < p.len && ((p.data[n] | 32) >= 'a' && (p.data[n] | 32) <= 'z')) n++;
  while (n && n < p.len &&
         (((p.data[n] | 32) >= 'a' && (p.data[n] | 32) <= 'z') ||
          (p.data[n] >= '0' && p.data[n] <= '9') || p.data[n] == '+' || p.data[n] == '-' ||
          p.data[n] == '.'))
    n++;
  return n && p.len - n >= 3 && !memcmp(p.data + n, "://", 3) ? n : 0;
}
static int is_file(pf_str p, int64_t n) { return n == 4 && !memcmp(p.data, "file", 4); }
int pf_is_remote(pf_str path) {
  int64_t n = scheme(path);
  return n && !is_file(path, n);
}
int64_t pf_local_prefix(pf_str path) { return is_file(path, scheme(path)) ? 7 : 0; }

static pf_status ask(const pf_host *host, int32_t what, pf_str path, FILE *f, char *why,
                     int64_t room) {
  const pf_files *files = host->extension("pyflow.files/1");
  if (!files || !files->call) {
    snprintf(why, (size_t)room,
             "a path with a scheme needs Python with the package fsspec; copy "
             "the file to a local folder");
    return PF_UNIMPLEMENTED;
  }
  return files->call(what, path, fileno(f), why, room);
}
static pf_status unnamed(FILE **f, char *why, int64_t room) {
  if ((*f = tmpfile())) return PF_OK;
  snprintf(why, (size_t)room, "no temporary file: %s", strerror(errno));
  return PF_RESOURCE_EXHAUSTED;
}
static pf_status into_file(const pf_host *host, int32_t what, pf_str path, FILE **f, char *why,
                           int64_t room) {
  PF_TRY(unnamed(f, why, room));
  pf_status st = ask(host, what, path, *f, why, room);
  if (st) fclose(*f), *f = NULL;
  else rewind(*f);
  return st;
}
pf_status pf_remote_read(const pf_host *host, pf_str path, FILE **f, char *why, int64_t room) {
  return into_file(host, PF_FILES_READ, path, f, why, room);
}
pf_status pf_remote_match(const pf_host *host, pf_str pattern, FILE **f, char *why, int64_t room) {
  return into_file(host, PF_FILES_MATCH, pattern, f, why, room);
}
pf_status pf_remote_write(const pf_host *host, pf_str path, pf_str bytes, char *why, int64_t room) {
  FILE *f;
  pf_status st = unnamed(&f, why, room);
  if (st) return st;
  size_t n = (size_t)bytes.len;
  if ((n && fwrite(bytes.data, 1, n, f) != n) || fflush(f)) {
    snprintf(why, (size_t)room, "the temporary file: %s", strerror(errno));
    st = PF_RESOURCE_EXHAUSTED;
  }
  rewind(f);
  if (!st) st = ask(host, PF_FILES_WRITE, path, f, why, room);
  fclose(f);
  return st;
}
