/* checkpoint_file.c - files of checkpoints: whole reads and writes, temporary files, commits,
 * CRC-32.
 *
 * Invariants: short reads and writes and EINTR are looped over; every failure names the path and
 * the reason.
 * Threads: any; two writers of one path are told apart by their temporary names.
 */
#include "checkpoint/checkpoint.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------------------------------------------------------------- CRC-32, sixteen bytes a step */
static uint32_t table[16][256];
static void fill_table(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t x = i;
    for (int k = 0; k < 8; k++) x = x >> 1 ^ (x & 1 ? 0xEDB88320u : 0);
    table[0][i] = x;
  }
  for (int t = 1; t < 16; t++)
    for (int i = 0; i < 256; i++)
      table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 255];
}

uint32_t ck_crc(uint32_t crc, const void *data, int64_t n) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const unsigned char *p = data;
  pthread_once(&once, fill_table);
  crc = ~crc;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  for (; n >= 16; n -= 16, p += 16) {
    uint32_t w[4];
    memcpy(w, p, 16);
    w[0] ^= crc;
    crc = 0;
    for (int k = 0; k < 4; k++)
      crc ^= table[15 - 4 * k][w[k] & 255] ^ table[14 - 4 * k][w[k] >> 8 & 255] ^
             table[13 - 4 * k][w[k] >> 16 & 255] ^ table[12 - 4 * k][w[k] >> 24];
  }
#endif
  for (; n > 0; n--, p++) crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
  return ~crc;
}

/* ---------------------------------------------------------------- errors and paths */
static pf_status status_of(int e) { /* as TensorFlow's file systems say it */
  switch (e) {
    case ENOENT: return PF_NOT_FOUND;
    case ENAMETOOLONG: case EINVAL: return PF_INVALID_ARGUMENT;
    case ENOTDIR: case EISDIR: case EBUSY: case ETXTBSY: return PF_FAILED_PRECONDITION;
    case EACCES: case EROFS: case EPERM: return PF_PERMISSION_DENIED;
    case ENOSPC: case EDQUOT: case EMFILE: case ENFILE: case ENOMEM: return PF_RESOURCE_EXHAUSTED;
    case EFBIG: case EOVERFLOW: return PF_OUT_OF_RANGE;
    default: return PF_UNKNOWN;
  }
}
pf_status ck_errno(pf_ctx *c, const char *what, const char *path) {
  int e = errno;
  return pf_failf(c, status_of(e), "cannot %s %s: %s", what, path, strerror(e));
}

const char *ck_base(const char *prefix) {
  const char *slash = strrchr(prefix, '/');
  return slash ? slash + 1 : prefix;
}
void ck_folder(const char *prefix, char *folder) {
  size_t n = (size_t)(ck_base(prefix) - prefix);
  while (n > 1 && prefix[n - 1] == '/') n--;
  if (n == 0) folder[n++] = '.';
  else memcpy(folder, prefix, n);
  folder[n] = 0;
}
pf_status ck_path(pf_ctx *c, char *out, const char *folder, const char *name) {
  int n = snprintf(out, CK_PATH, "%s/%s", folder, name);
  return n > 0 && n < CK_PATH ? PF_OK : PF_INVALID(c, "path is too long: %s/%s", folder, name);
}

/* ---------------------------------------------------------------- bytes in and out */
pf_status ck_write_all(pf_ctx *c, int fd, const char *path, const void *data, int64_t n) {
  const char *p = data;
  while (n > 0) {
    ssize_t k = write(fd, p, (size_t)PF_MIN(n, (int64_t)1 << 30));
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return ck_errno(c, "write", path);
    p += k;
    n -= k;
  }
  return PF_OK;
}

pf_status ck_read_at(pf_ctx *c, int fd, const char *path, void *data, int64_t n, int64_t at) {
  char *p = data;
  while (n > 0) {
    ssize_t k = pread(fd, p, (size_t)PF_MIN(n, (int64_t)1 << 30), (off_t)at);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return ck_errno(c, "read", path);
    if (k == 0) return pf_failf(c, PF_DATA_LOSS, "%s ends %" PRId64 " bytes early", path, n);
    p += k;
    at += k;
    n -= k;
  }
  return PF_OK;
}

pf_status ck_create(pf_ctx *c, const char *path, char *temporary, int *fd) {
  static atomic_uint serial;
  for (int tries = 0; tries < 100; tries++) {
    int n = snprintf(temporary, CK_PATH, "%s.tmp-%ld-%u", path, (long)getpid(),
                     atomic_fetch_add(&serial, 1));
    if (n <= 0 || n >= CK_PATH) return PF_INVALID(c, "path is too long: %s", path);
    *fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (*fd >= 0) return PF_OK;
    if (errno == EEXIST || errno == EINTR) continue;
    if (errno == ENOENT) {
      char folder[CK_PATH];
      ck_folder(path, folder);
      return pf_failf(c, PF_NOT_FOUND, "the folder '%s' does not exist; create it first", folder);
    }
    break;
  }
  return ck_errno(c, "create", temporary);
}

pf_status ck_commit(pf_ctx *c, int fd, const char *temporary, const char *path) {
  pf_status r = fsync(fd) ? ck_errno(c, "fsync", temporary) : PF_OK;
  if (close(fd) && r == PF_OK) r = ck_errno(c, "close", temporary);
  if (r == PF_OK && rename(temporary, path)) r = ck_errno(c, "rename", temporary);
  if (r != PF_OK) unlink(temporary);
  return r;
}

pf_status ck_sync_folder(pf_ctx *c, const char *prefix) {
  char folder[CK_PATH];
  ck_folder(prefix, folder);
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ck_errno(c, "open", folder);
  pf_status r =
      fsync(fd) && errno != EINVAL && errno != EROFS ? ck_errno(c, "fsync", folder) : PF_OK;
  close(fd);
  return r;
}
