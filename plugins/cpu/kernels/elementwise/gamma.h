/* gamma.h - incomplete gamma functions in double, shared by special_more.c and random_gamma.c.
 * Threads: pure functions. */
#ifndef PF_CPU_GAMMA_H
#define PF_CPU_GAMMA_H
typedef struct { double v, d; } pf_dual; /* a value and its derivative */
double pf_log_gamma(double x);           /* log |gamma(x)|, without libm's global sign */
double pf_digamma(double x);
pf_dual pf_igamma(double a, double x); /* the lower regularised function and its derivative by a */
double pf_igammac(double a, double x);
double pf_igamma_float(double a, double x); /* the two for callers that round to float: to 1e-9 */
double pf_igammac_float(double a, double x);
#endif
