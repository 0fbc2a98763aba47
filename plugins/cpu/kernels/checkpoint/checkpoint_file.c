/* checkpoint_file.c - files of checkpoints: whole reads and writes, temporary files, commits,
 * CRC-32.
 *
 * Invariants: short reads and writes and EINTR are looped over; every failure names the path and
 * the reason.
 * Threads: any; two writers of one path are told apart by their temporary names.
 */
#include "checkpoint/checkpoint.h"
#include "base/machine.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

/* ----------------------------------------------------------- CRC-32, 64 or sixteen bytes a step */
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

#if defined(__x86_64__)
typedef long long pair __attribute__((vector_size(16), may_alias, aligned(1)));

/* Powers of x modulo the polynomial, bits reflected: what 512, 128 and 64 bits further on means
 * (V. Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ, Intel 2009). */
static const pair BY_512 = {0x0154442bd4, 0x01c6e41596}, BY_128 = {0x01751997d0, 0x00ccaa009e};
static const pair BY_64 = {0x0163cd6124, 0}, BARRETT = {0x01db710641, 0x01f7011641};

#define PRODUCTS __attribute__((target("pclmul,sse4.1"), always_inline)) static inline
PRODUCTS pair folded(pair x, pair by, pair next) {
  return (pair)__builtin_ia32_pclmulqdq128(x, by, 0x00) ^
         (pair)__builtin_ia32_pclmulqdq128(x, by, 0x11) ^ next;
}
PRODUCTS pair low_half(pair x) { return (pair){x[0], 0}; }

/* 128 bits -> the CRC's 32: 96 and 64 bits further on, then Barrett's reduction. */
PRODUCTS uint32_t reduced(pair x) {
  pair low = (pair){0xffffffff, 0}, y;
  y = (pair)__builtin_ia32_pclmulqdq128(low_half(x), BY_128, 0x10) ^ (pair) { x[1], 0 };
  uint64_t lo = (uint64_t)y[0];
  pair shifted = {(long long)(lo >> 32 | (uint64_t)y[1] << 32), (long long)((uint64_t)y[1] >> 32)};
  y = (pair)__builtin_ia32_pclmulqdq128(y & low, BY_64, 0x00) ^ shifted;
  pair q = (pair)__builtin_ia32_pclmulqdq128(y & low, BARRETT, 0x10);
  q = (pair)__builtin_ia32_pclmulqdq128(q & low, BARRETT, 0x00);
  return (uint32_t)((uint64_t)(y ^ q)[0] >> 32);
}

/* n: at least 64, a multiple of 16; crc: inverted already. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t
by_products(uint32_t crc, const unsigned char *p, int64_t n) {
  const pair *v = (const pair *)p;
  pair a = v[0] ^ (pair) { crc, 0 }, b = v[1], c = v[2], d = v[3];
  for (v += 4, n -= 64; n >= 64; v += 4, n -= 64) {
    a = folded(a, BY_512, v[0]);
    b = folded(b, BY_512, v[1]);
    c = folded(c, BY_512, v[2]);
    d = folded(d, BY_512, v[3]);
  }
  a = folded(folded(folded(a, BY_128, b), BY_128, c), BY_128, d);
  for (; n >= 16; v++, n -= 16) a = folded(a, BY_128, v[0]);
  return reduced(a);
}
#endif

uint32_t ck_crc(uint32_t crc, const void *data, int64_t n) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const unsigned char *p = data;
  pthread_once(&once, fill_table);
  crc = ~crc;
#if defined(__x86_64__)
  if (n >= 64 && pf_has_bit_products()) {
    int64_t m = n & ~(int64_t)15;
    crc = by_products(crc, p, m);
    p += m;
    n -= m;
  }
#endif
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
    case ENAMETOOLONG:
    case EINVAL: return PF_INVALID_ARGUMENT;
    case ENOTDIR:
    case EISDIR:
    case EBUSY:
    case ETXTBSY: return PF_FAILED_PRECONDITION;
    case EACCES:
    case EROFS:
    case EPERM: return PF_PERMISSION_DENIED;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM: return PF_RESOURCE_EXHAUSTED;
    case EFBIG:
    case EOVERFLOW: return PF_OUT_OF_RANGE;
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
