/* reader.h - readers: records of the files that a queue names, one reader for many steps.
 *
 * A reader has one TURN: who has it reads, others wait as attempts (queue/waiting.h).  Where the
 * reader needs another file and the queue has none, the call waits on the queue, as a dequeue does,
 * keeping the turn; no thread waits with it.
 *
 *     NEW -> TURN        [start_call]   the reader is free
 *     NEW -> IN LINE     [start_call]   somebody reads
 *     IN LINE -> TURN    [give_turn]    on a thread of the BLOCKING lane
 *     TURN -> ON QUEUE   [next_file]    the queue is empty; goes on in the lane [file_came]
 *     TURN -> OVER       [finish]       a record, or an error; the next one in line gets the turn
 *
 * Invariants
 *   1. Only who has the turn touches what belongs to the file; counts are read under the lock.
 *   2. A call that is cancelled while it waits gives the turn back, and takes no file.
 *
 * Source: TF 1.15's ReaderBase and its kinds; keys, counts and the order of errors are theirs.
 */
#ifndef PF_CPU_READER_H
#define PF_CPU_READER_H
#include "queue/queue.h"
#include "reader/source.h"
#include "base/bytes.h"

typedef struct pf_reader pf_reader;
typedef struct {
  const char *op;
  pf_status (*begin)(pf_reader *); /* a file is there: r->work; may be NULL */
  /* a record: r->key, and in *value; PF_SOURCE_END: there is none any more; *last: none follows */
  pf_status (*next)(pf_reader *, pf_str *value, int *last);
  int can_save;
} pf_reader_kind;
extern const pf_reader_kind pf_text_reader, pf_whole_reader, pf_fixed_reader, pf_record_reader,
    pf_identity_reader;

struct pf_reader {
  pf_waited base;
  const pf_reader_kind *kind;
  const pf_host *host;
  char *name;
  int32_t busy, resuming;              /* somebody has the turn; give_turn is on its way */
  int64_t started, finished, produced; /* lock */
  int64_t header, record, footer, hop; /* bytes; header: lines of a text reader */
  pf_bytes work, key, window;          /* the file's name; a record's key; bytes read ahead */
  pf_source source;
  int64_t number; /* of the next record, or line */
};
#endif
