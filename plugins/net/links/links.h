/* The links of this folder. */
#ifndef PF_NET_LINKS_H
#define PF_NET_LINKS_H
#include <pyflow/link.h>
extern const pf_link pf_link_tcp, pf_link_unix;
#endif
