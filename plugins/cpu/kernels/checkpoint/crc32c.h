/* crc32c.h - CRC-32C (Castagnoli), the checksum of TensorFlow's tables, checkpoints and records.
 *
 * By the processor's instruction where there is one, else sixteen bytes a step out of tables.
 * Threads: any; pure.
 */
#ifndef PF_CPU_CRC32C_H
#define PF_CPU_CRC32C_H
#include <stdint.h>

/* Goes on from `crc`; begin with 0. */
uint32_t pf_crc32c(uint32_t crc, const void *data, int64_t n);

/* How TensorFlow stores one: a checksum of bytes that hold checksums would be weak. */
static inline uint32_t pf_crc32c_mask(uint32_t crc) {
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}
#endif
