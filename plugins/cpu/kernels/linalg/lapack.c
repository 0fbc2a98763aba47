/* lapack.c - looks the LAPACK routines up, once, while the plugin starts (see lapack.h). */
#include "linalg/lapack.h"
#include <dlfcn.h>
#include <string.h>

pf_lapack_table pf_lapack;

void pf_lapack_find(void) {
#ifndef PF_NO_BLAS
  static const struct {
    const char *name;
    size_t offset;
  } wanted[] = {
#define FIND(name) {"scipy_" #name "_", offsetof(pf_lapack_table, name)}
    FIND(sgetrf), FIND(dgetrf), FIND(cgetrf), FIND(zgetrf), FIND(sgetrs), FIND(dgetrs),
    FIND(cgetrs), FIND(zgetrs), FIND(spotrf), FIND(dpotrf), FIND(cpotrf), FIND(zpotrf),
    FIND(dgeqrf), FIND(zgeqrf), FIND(dorgqr), FIND(zungqr), FIND(dgesdd), FIND(zgesdd),
    FIND(dsyevd), FIND(zheevd), FIND(dgemm),  FIND(zgemm),  FIND(dsyrk),  FIND(zherk)};
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    void *symbol = dlsym(RTLD_DEFAULT, wanted[i].name);
    if (!symbol) return;
    memcpy((char *)&pf_lapack + wanted[i].offset, &symbol, sizeof symbol);
  }
  pf_lapack.found = 1;
#endif
}
