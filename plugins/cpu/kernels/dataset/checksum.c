/* checksum.c - CRC-32C by tables, eight bytes at a time: checksum.h.
 *
 * Threads: the tables are made once.
 */
#include "dataset/checksum.h"
#include <pthread.h>
#include <string.h>

static uint32_t table[8][256];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
    table[0][i] = crc;
  }
  for (int k = 1; k < 8; k++)
    for (int i = 0; i < 256; i++)
      table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 255];
}
uint32_t ds_crc32c(const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  uint32_t crc = ~0u;
  pthread_once(&made, make);
  for (; n >= 8; n -= 8, p += 8) {
    uint32_t lo = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                         (uint32_t)p[3] << 24);
    crc = table[7][lo & 255] ^ table[6][lo >> 8 & 255] ^ table[5][lo >> 16 & 255] ^
          table[4][lo >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
  }
  for (; n; n--) crc = (crc >> 8) ^ table[0][(crc ^ *p++) & 255];
  return ~crc;
}
