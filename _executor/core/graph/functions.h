/* What functions.pyx reads a library with: the wire format, and signatures. */
#ifndef PF_FUNCTIONS_H
#define PF_FUNCTIONS_H
#include "graph/sig.h"
#include "graph/wire.h"
#endif
