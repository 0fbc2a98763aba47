/* asker.c - who asks other tasks for tensors: a connection with each, one thread that reads the answers. */
#include "acme.h"
#include <errno.h>
#include <poll.h>

typedef struct asker {
  struct asker *next;
  uint64_t sender, ids;
  int fd;                               /* -1: not connected yet */
  request *waiting;                     /* asked for, or to be once there is a connection */
} asker;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  /* guards all of the above, and what is written */
static asker *askers;

static int write_request(asker *a, const request *r) {
  ask_head h = {r->id, r->step.session, r->step.step, r->sender, (uint64_t)r->key_n};
  return write_all(a->fd, &h, sizeof h) || write_all(a->fd, r->key, r->key_n);
}

static void fail_step(const request *r, pf_status st, int32_t flags, const char *text) {
  const pf_transport2 *t = transport(r->host);
  pf_str why = {text, (int64_t)strlen(text)}, nobody = {"", 0};
  t->fail(r->task, r->step, t->incarnation(r->task), st, flags, nobody, why);
}

static request *found(asker *a, uint64_t id) {            /* taken out of the list */
  pthread_mutex_lock(&lock);
  request **at = &a->waiting;
  while (*at && (*at)->id != id) at = &(*at)->next;
  request *r = *at;
  if (r) *at = r->next;
  pthread_mutex_unlock(&lock);
  return r;
}

/* The tensor of an answer, read; NULL: what came is none. */
static DLManagedTensorVersioned *read_value(int fd, const answer_head *h, const request *r) {
  const pf_transport2 *t = transport(r->host);
  int64_t shape[MAX_NDIM];
  if (h->ndim < 0 || h->ndim > MAX_NDIM || h->bytes < 0 || read_all(fd, shape, h->ndim * (int64_t)sizeof *shape)) return NULL;
  DLManagedTensorVersioned *m = t->room(r->task, r->step, (pf_str){r->key, r->key_n}, h->type, shape, h->ndim);
  if (m && bytes_of(&m->dl_tensor) == h->bytes && !read_all(fd, PF_DATA(char, &m->dl_tensor), h->bytes)) return m;
  if (m) m->deleter(m);
  return NULL;
}

/* 1: the connection is over. */
static int take_answer(asker *a) {
  answer_head h;
  if (read_all(a->fd, &h, sizeof h)) return 1;
  request *r = found(a, h.id);
  if (!r) return 1;
  const pf_transport2 *t = transport(r->host);
  int broken = 0;
  if (h.status) {
    fail_step(r, h.status > 0 && h.status <= 16 ? (pf_status)h.status : PF_INTERNAL, PF_ERROR_DERIVED, "acme: the step failed where the tensor is made");
  } else {
    DLManagedTensorVersioned *value = h.dead ? NULL : read_value(a->fd, &h, r);
    broken = !h.dead && !value;
    if (broken) fail_step(r, PF_UNAVAILABLE, 0, "acme: a tensor broke off");
    else t->put(r->task, r->step, t->incarnation(r->task), (pf_str){r->key, r->key_n}, value, h.dead);
  }
  request_unref(r);
  return broken;
}

/* ---------------------------------------------------------------- life */
static int any_waits(asker *a) {                          /* lock held; lets go of those that nobody waits for */
  for (request **at = &a->waiting; *at;) {
    request *r = *at;
    if (__atomic_load_n(&r->over, __ATOMIC_ACQUIRE)) *at = r->next, request_unref(r);
    else at = &r->next;
  }
  return a->waiting != NULL;
}

/* Until the task listens: its Send may not have run yet. */
static int connected(asker *a) {
  struct sockaddr_un at;
  socklen_t n = address_of(a->sender, &at);
  for (;; poll(NULL, 0, 1)) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int there = fd >= 0 && !connect(fd, (struct sockaddr *)&at, n) && of_our_user(fd), failed = 0;
    if (!there && fd >= 0) close(fd);
    pthread_mutex_lock(&lock);
    int wanted = any_waits(a);
    if (there) {
      a->fd = fd;
      for (request *r = a->waiting; r; r = r->next) failed |= write_request(a, r);
    }
    pthread_mutex_unlock(&lock);
    if (there && !failed) return 1;
    if (!wanted || failed) return 0;
  }
}

static void *asks(void *arg) {
  asker *a = arg;
  if (connected(a))
    while (!take_answer(a)) continue;
  pthread_mutex_lock(&lock);
  asker **at = &askers;
  while (*at != a) at = &(*at)->next;
  *at = a->next;                        /* who asks from now on finds another */
  pthread_mutex_unlock(&lock);
  while (a->waiting) {
    request *r = a->waiting;
    a->waiting = r->next;
    if (!__atomic_load_n(&r->over, __ATOMIC_ACQUIRE)) fail_step(r, PF_UNAVAILABLE, 0, "acme: the task that sends was lost");
    request_unref(r);
  }
  if (a->fd >= 0) close(a->fd);
  free(a);
  return NULL;
}

int ask(request *r) {
  pthread_t id;
  pthread_mutex_lock(&lock);
  asker *a = askers;
  while (a && a->sender != r->sender) a = a->next;
  if (!a && (a = calloc(1, sizeof *a))) {
    a->sender = r->sender, a->fd = -1;
    if (pthread_create(&id, NULL, asks, a) || pthread_detach(id)) free(a), a = NULL;
    else a->next = askers, askers = a;
  }
  if (a) {
    r->id = ++a->ids;
    __atomic_add_fetch(&r->refs, 1, __ATOMIC_RELAXED);
    r->next = a->waiting, a->waiting = r;
    if (a->fd >= 0 && write_request(a, r)) shutdown(a->fd, SHUT_RDWR);     /* its thread tells those who wait */
  }
  pthread_mutex_unlock(&lock);
  return a == NULL;
}
