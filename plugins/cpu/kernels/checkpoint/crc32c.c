/* crc32c.c - see crc32c.h.  The instruction gives 8 bytes in 3 cycles, about 8 GB/s. */
#include "checkpoint/crc32c.h"
#include "base/machine.h"
#include <pthread.h>
#include <string.h>

static uint32_t table[16][256];
static void fill_table(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t x = i;
    for (int k = 0; k < 8; k++) x = x >> 1 ^ (x & 1 ? 0x82F63B78u : 0);
    table[0][i] = x;
  }
  for (int t = 1; t < 16; t++)
    for (int i = 0; i < 256; i++)
      table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 255];
}

static uint32_t by_tables(uint32_t crc, const unsigned char *p, int64_t n) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill_table);
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
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t
by_instruction(uint32_t crc, const unsigned char *p, int64_t n) {
  uint64_t x = crc, word;
  for (; n >= 8; n -= 8, p += 8) {
    memcpy(&word, p, 8);
    x = __builtin_ia32_crc32di(x, word);
  }
  for (; n > 0; n--, p++) x = __builtin_ia32_crc32qi((uint32_t)x, *p);
  return (uint32_t)x;
}
#endif

uint32_t pf_crc32c(uint32_t crc, const void *data, int64_t n) {
#if defined(__x86_64__)
  if (pf_has_crc32c()) return ~by_instruction(~crc, data, n);
#endif
  return ~by_tables(~crc, data, n);
}
