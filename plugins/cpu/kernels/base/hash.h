/* hash.h - hashes of strings (strings_hash.c).  Threads: pure functions. */
#ifndef PF_CPU_HASH_H
#define PF_CPU_HASH_H
#include <stdint.h>
uint64_t pf_fingerprint64(const char *s, uint64_t n);                     /* FarmHash */
uint64_t pf_keyed_hash(const char *s, uint64_t n, const uint64_t key[2]); /* SipHash */
#endif
