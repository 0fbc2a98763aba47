/* memory.c - the device's own address space: an arena, its blocks, and who may touch them when.
 *
 * A memfd is mapped twice: once PROT_NONE - these are the device pointers, and code of the host
 * that follows one gets SIGSEGV - and once readable, for the threads of the streams.
 *
 *     FREE -> RESERVED [fake_alloc] -> LIVE [open_block, on the stream] -> FREEING [fake_free]
 *          -> FREE [close_block, on the stream]
 *
 * Invariants
 *   1. Fresh memory is all 0xFF (NaN, -1), freed memory all 0xA5, both in stream order.
 *   2. Another stream than its own uses a block only while LIVE; anything else is a violation.
 *   3. Behind each block lie FAKE_GUARD bytes that nobody writes; the free looks.
 *   4. bytes_in_use falls when the free runs, so memory may be pending: a host that waits gets it.
 * Threads: [any]; `device.lock` guards the blocks.
 */
#include "fake.h"
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
  fake_op op;
  uint64_t at;
} block_op;

pf_status fake_map(fake_device *dev) {
  if (dev->arena) return PF_OK;
  int fd = memfd_create("fake accelerator", 0);
  if (fd < 0 || ftruncate(fd, (off_t)FAKE_ARENA)) {
    if (fd >= 0) close(fd);
    return PF_RESOURCE_EXHAUSTED;
  }
  char *arena = mmap(NULL, FAKE_ARENA, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  char *seen = mmap(NULL, FAKE_ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  close(fd);
  if (arena == MAP_FAILED || seen == MAP_FAILED) return PF_RESOURCE_EXHAUSTED;
  dev->shift = seen - arena;
  dev->arena = arena;
  return PF_OK;
}

fake_device *fake_owner(const void *p) {
  uintptr_t a = (uintptr_t)p;
  for (int32_t d = 0; d < fake_count(); d++) {
    uintptr_t base = (uintptr_t)fake_devices[d].arena;
    if (base && a >= base && a < base + FAKE_ARENA) return &fake_devices[d];
  }
  return NULL;
}

/* ---------------------------------------------------------------- blocks, under device.lock */
/* The last block at or below `at`, or -1. */
static int64_t block_below(const fake_device *dev, uint64_t at) {
  int64_t lo = 0, hi = dev->n_blocks;
  while (lo < hi) {
    int64_t mid = (lo + hi) / 2;
    if (dev->blocks[mid].at <= at) lo = mid + 1;
    else hi = mid;
  }
  return lo - 1;
}
static fake_block *block_at(const fake_device *dev, uint64_t at) {
  int64_t i = block_below(dev, at);
  return i >= 0 && dev->blocks[i].at == at ? &dev->blocks[i] : NULL;
}

static int32_t make_room(fake_device *dev) {
  if (dev->n_blocks < dev->room_blocks) return 1;
  int64_t room = dev->room_blocks ? 2 * dev->room_blocks : 256;
  fake_block *more = realloc(dev->blocks, (size_t)room * sizeof *more);
  if (!more) return 0;
  dev->blocks = more;
  dev->room_blocks = room;
  return 1;
}

/* First fit: the index of a new block of `room` bytes, or -1. */
static int64_t insert_block(fake_device *dev, uint64_t room, uint64_t align) {
  uint64_t at = 0, end;
  int64_t i = 0;
  if (!make_room(dev)) return -1;
  for (;; i++) {
    at = (at + align - 1) / align * align;
    end = i < dev->n_blocks ? dev->blocks[i].at : FAKE_ARENA;
    if (at + room <= end) break;
    if (i == dev->n_blocks) return -1;
    at = dev->blocks[i].at + dev->blocks[i].room;
  }
  memmove(dev->blocks + i + 1, dev->blocks + i, (size_t)(dev->n_blocks - i) * sizeof *dev->blocks);
  dev->n_blocks++;
  dev->blocks[i] = (fake_block){.at = at, .room = room, .state = FAKE_RESERVED};
  return i;
}

static void remove_block(fake_device *dev, fake_block *b) {
  int64_t i = b - dev->blocks;
  atomic_fetch_sub(&dev->counters.bytes_in_use, (int64_t)(b->room - FAKE_GUARD));
  atomic_fetch_sub(&dev->counters.blocks, 1);
  dev->n_blocks--;
  memmove(b, b + 1, (size_t)(dev->n_blocks - i) * sizeof *b);
}

static void find_block(fake_device *dev, uint64_t at, fake_block *found) {
  pthread_mutex_lock(&dev->lock);
  *found = *block_at(dev, at); /* the operation that asks keeps the block alive */
  pthread_mutex_unlock(&dev->lock);
}

/* ---------------------------------------------------------------- in stream order */
static void open_block(fake_device *dev, uint64_t at) {
  fake_block b;
  find_block(dev, at, &b);
  char *p = dev->arena + dev->shift + at;
  memset(p, FAKE_FRESH, b.room - FAKE_GUARD);
  memset(p + b.room - FAKE_GUARD, FAKE_GUARD_BYTE, FAKE_GUARD);
  pthread_mutex_lock(&dev->lock);
  fake_block *now = block_at(dev, at);
  if (now->state == FAKE_RESERVED) now->state = FAKE_LIVE;
  pthread_mutex_unlock(&dev->lock);
}
static void close_block(fake_device *dev, uint64_t at) {
  fake_block b;
  find_block(dev, at, &b);
  unsigned char *p = (unsigned char *)dev->arena + dev->shift + at;
  for (int i = 0; i < FAKE_GUARD; i++)
    if (p[b.room - FAKE_GUARD + (uint64_t)i] != FAKE_GUARD_BYTE) {
      fake_violation(dev, "something wrote behind a block of %llu bytes",
                     (unsigned long long)b.bytes);
      break;
    }
  memset(p, FAKE_FREED, b.room);
  pthread_mutex_lock(&dev->lock);
  remove_block(dev, block_at(dev, at));
  pthread_mutex_unlock(&dev->lock);
}
static pf_status run_open(fake_stream *s, fake_op *op) {
  open_block(s->dev, ((block_op *)op)->at);
  return PF_OK;
}
static pf_status run_close(fake_stream *s, fake_op *op) {
  close_block(s->dev, ((block_op *)op)->at);
  return PF_OK;
}

/* Now, or on the stream. */
static void push_block(fake_device *dev, fake_stream *s, uint64_t at, int32_t opens) {
  block_op *op = s ? fake_op_new(sizeof *op, opens ? run_open : run_close) : NULL;
  if (!op) {
    (opens ? open_block : close_block)(dev, at);
    return;
  }
  op->at = at;
  op->op.always = 1;
  fake_push(s, &op->op);
}

/* ---------------------------------------------------------------- alloc and free */
static void *pinned_alloc(fake_device *dev, uint64_t bytes, uint64_t align) {
  void *p = NULL;
  if (posix_memalign(&p, align < 64 ? 64 : align, bytes ? bytes : 64)) return NULL;
  atomic_fetch_add(&dev->counters.pinned, 1);
  return p;
}
typedef struct {
  fake_op op;
  void *p;
} pinned_op;
static pf_status run_pinned_free(fake_stream *s, fake_op *op) {
  free(((pinned_op *)op)->p);
  atomic_fetch_sub(&s->dev->counters.pinned, 1);
  return PF_OK;
}
static void pinned_free(fake_device *dev, void *p, fake_stream *s) {
  pinned_op *op = s ? fake_op_new(sizeof *op, run_pinned_free) : NULL;
  if (!op) {
    free(p);
    atomic_fetch_sub(&dev->counters.pinned, 1);
    return;
  }
  op->p = p;
  op->op.always = 1;
  fake_push(s, &op->op);
}

static void raise_peak(fake_device *dev, int64_t used) {
  int64_t peak = atomic_load(&dev->counters.bytes_peak);
  while (used > peak && !atomic_compare_exchange_weak(&dev->counters.bytes_peak, &peak, used)) {}
}

void *fake_alloc(void *d, uint64_t bytes, uint64_t align, int32_t mem, void *stream) {
  fake_device *dev = d;
  fake_stream *s = stream;
  uint64_t size = (bytes ? bytes + 63 : 64) / 64 * 64;
  if (mem != PF_MEM_DEVICE) return pinned_alloc(dev, bytes, align);
  if (s && s->dev != dev) fake_violation(dev, "alloc with a stream of FAKE:%d", s->dev->ordinal);
  if (bytes > FAKE_ARENA || fake_take_failure(dev, &dev->knobs.fail_alloc)) {
    atomic_fetch_add(&dev->counters.failed_allocs, 1);
    return NULL;
  }
  pthread_mutex_lock(&dev->lock);
  int64_t used = atomic_load(&dev->counters.bytes_in_use) + (int64_t)size, i = -1;
  if ((double)used <= atomic_load(&dev->knobs.memory))
    i = insert_block(dev, size + FAKE_GUARD, align < 64 ? 64 : align);
  uint64_t at = i >= 0 ? dev->blocks[i].at : 0;
  if (i >= 0) {
    dev->blocks[i].bytes = bytes;
    dev->blocks[i].stream = s;
    atomic_store(&dev->counters.bytes_in_use, used);
    atomic_fetch_add(&dev->counters.blocks, 1);
    raise_peak(dev, used);
  }
  pthread_mutex_unlock(&dev->lock);
  atomic_fetch_add(i >= 0 ? &dev->counters.allocs : &dev->counters.failed_allocs, 1);
  if (i < 0) return NULL;
  push_block(dev, s, at, 1);
  return dev->arena + at;
}

void fake_free(void *d, void *p, uint64_t bytes, int32_t mem, void *stream) {
  fake_device *dev = d;
  fake_stream *s = stream;
  if (mem != PF_MEM_DEVICE) {
    pinned_free(dev, p, s);
    return;
  }
  if (fake_owner(p) != dev) {
    fake_violation(dev, "free of %p, which is not memory of this device", p);
    return;
  }
  uint64_t at = (uint64_t)((char *)p - dev->arena);
  pthread_mutex_lock(&dev->lock);
  fake_block *b = block_at(dev, at);
  int32_t state = b ? b->state : 0;
  uint64_t had = b ? b->bytes : 0;
  if (b && state != FAKE_FREEING) {
    b->state = FAKE_FREEING;
    b->stream = s;
  }
  pthread_mutex_unlock(&dev->lock);
  if (!b) fake_violation(dev, "free of %p, where no block begins", p);
  else if (state == FAKE_FREEING) fake_violation(dev, "double free of %p", p);
  else if (had != bytes)
    fake_violation(dev, "free of %llu bytes at %p, where %llu were allocated",
                   (unsigned long long)bytes, p, (unsigned long long)had);
  if (!b || state == FAKE_FREEING) return;
  atomic_fetch_add(&dev->counters.frees, 1);
  push_block(dev, s, at, 0);
}

/* ---------------------------------------------------------------- access by a stream */
char *fake_reach(fake_device *dev, fake_stream *s, const void *p, uint64_t bytes) {
  if (fake_owner(p) != dev) {
    fake_violation(dev, "host pointer %p on FAKE:%d", p, dev->ordinal);
    return NULL;
  }
  const char *wrong = NULL;
  uint64_t at = (uint64_t)((const char *)p - dev->arena);
  pthread_mutex_lock(&dev->lock);
  int64_t i = block_below(dev, at);
  const fake_block *b = i >= 0 ? &dev->blocks[i] : NULL;
  if (!b || at >= b->at + b->room - FAKE_GUARD) wrong = "freed or never allocated";
  else if (at + bytes > b->at + b->room - FAKE_GUARD) wrong = "too short for it";
  else if (b->state == FAKE_RESERVED) wrong = "not allocated yet in stream order";
  else if (b->state == FAKE_FREEING && b->stream != s) wrong = "being freed on another stream";
  pthread_mutex_unlock(&dev->lock);
  if (!wrong) return dev->arena + dev->shift + at;
  fake_violation(dev, "use of %llu bytes at %p, which is %s", (unsigned long long)bytes, p, wrong);
  return NULL;
}

void fake_forget_blocks(fake_device *dev) {
  pthread_mutex_lock(&dev->lock);
  while (dev->n_blocks) remove_block(dev, &dev->blocks[dev->n_blocks - 1]);
  free(dev->blocks);
  dev->blocks = NULL;
  dev->room_blocks = 0;
  pthread_mutex_unlock(&dev->lock);
}

/* ---------------------------------------------------------------- host memory of the device's */
void *fake_mail_new(fake_device *dev, uint64_t bytes) {
  fake_mail *m = calloc(1, bytes);
  if (!m) return NULL;
  pthread_mutex_lock(&dev->lock);
  m->next = dev->mail;
  m->link = &dev->mail;
  if (m->next) m->next->link = &m->next;
  dev->mail = m;
  pthread_mutex_unlock(&dev->lock);
  return m;
}
void fake_mail_free(fake_device *dev, fake_mail *m) {
  pthread_mutex_lock(&dev->lock);
  *m->link = m->next;
  if (m->next) m->next->link = m->link;
  pthread_mutex_unlock(&dev->lock);
  free(m);
}
