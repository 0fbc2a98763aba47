/* The link whose bytes go over a stream that somebody else keeps: gRPC's.
 *
 *   the net --post--> [block that the pump gave] --take--> the pump --> gRPC ... gRPC --> the pump --put--> [queue] --receive--> the net
 *
 * A pump is whoever has the stream: it takes what is to be sent, and puts what came.  In pyflow it
 * is Python (_executor/api/streams.pyx, pyflow/distributed/wire/grpc_link.py), which sees bytes and
 * never what they mean.
 *
 * Invariants
 *   1. What is posted is copied once, into a block that is sent as it is; what was put is copied
 *      once, to where it belongs.
 *   2. At most one block to be taken, and QUEUED bytes that came, wait; who posts more is told 0,
 *      who puts more waits.
 *   3. After `close` what was posted is still taken; after `end` what was put is still received.
 *
 * Threads: one takes, one puts, any ends; the link's functions as link.h says.
 */
#ifndef PF_GRPC_STREAMS_H
#define PF_GRPC_STREAMS_H
#include <pyflow/link.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef struct pf_link_conn pf_stream;
extern const pf_link pf_link_grpc;

pf_stream *pf_stream_new(void); /* one reference, the pump's; NULL: no memory or descriptors */
void pf_stream_unref(pf_stream *s);
/* The address by which pf_link_grpc.connect finds the stream, once; 0: there are too many that
 * wait. */
uint64_t pf_stream_dial(pf_stream *s);
/* if nobody has connected by it, it is not found any more, and over */
void pf_stream_undial(pf_stream *s);
/* The stream comes in at a port of pf_link_grpc's, which is known by what `listen` called its
 * address. */
pf_status pf_stream_offer(uint64_t port, pf_stream *s);
/* Waits for bytes that are posted into the block that was given before, and how many there are,
 * or 0: it is over.  That block is the pump's again, and `next`, of `room` bytes, is filled from
 * now on.  The first is given with `give`. */
void pf_stream_give(pf_stream *s, void *block, int64_t room);
int64_t pf_stream_take(pf_stream *s, void *next, int64_t room);
/* 1: taken, `owner` keeps the bytes until pf_stream_spent says so; 0: nobody wants them, or no
 * memory.  The net does not know of them before `mark`: whoever puts may have it receive them on
 * its own thread first. */
int32_t pf_stream_put(pf_stream *s, const void *bytes, int64_t n, void *owner);
void pf_stream_mark(pf_stream *s);
void *pf_stream_spent(pf_stream *s); /* the owner of bytes that are needed no more; NULL */
void pf_stream_end(pf_stream *s, const char *why);
#ifdef __cplusplus
}
#endif
#endif
