/* checksum.h - CRC-32C (Castagnoli), as in TFRecord files: Castagnoli, Brauer, Herrmann 1993. */
#ifndef PF_CPU_DATASET_CHECKSUM_H
#define PF_CPU_DATASET_CHECKSUM_H
#include <stddef.h>
#include <stdint.h>
uint32_t ds_crc32c(const void *bytes, size_t n);
/* As it stands in a TFRecord: turned right by 15 bits, and a constant added */
static inline uint32_t ds_masked_crc32c(const void *bytes, size_t n) {
  uint32_t crc = ds_crc32c(bytes, n);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}
#endif
