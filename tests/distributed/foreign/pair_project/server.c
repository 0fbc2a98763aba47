/* server.c - the server of each task that sends, and what both ends of a socket need.  What is asked for is taken from the
 * task's own steps, when it is there; answers go out in the order in which they come. */
#include "acme.h"
#include <errno.h>

typedef struct answer { struct answer *next; answer_head head; DLManagedTensorVersioned *value; } answer;
typedef struct server { struct server *next; const pf_host *host; pf_task *task; uint64_t incarnation; int fd; } server;
typedef struct {
  int refs, fd, ended;                  /* refs: atomic; ended: lock */
  server *of;
  pthread_mutex_t lock;
  pthread_cond_t more;
  answer *first, *last;
} connection;
typedef struct { connection *c; uint64_t id; } asked;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static server *servers;

socklen_t address_of(uint64_t incarnation, struct sockaddr_un *at) {
  memset(at, 0, sizeof *at);
  at->sun_family = AF_UNIX;
  int n = snprintf(at->sun_path + 1, sizeof at->sun_path - 1, "acme-pair-%016llx", (unsigned long long)incarnation);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}
int of_our_user(int fd) {
  struct ucred who = {0};
  socklen_t n = sizeof who;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid();
}
int read_all(int fd, void *to, int64_t n) {
  while (n > 0) {
    ssize_t k = recv(fd, to, (size_t)n, 0);
    if (k <= 0 && !(k < 0 && errno == EINTR)) return 1;
    if (k > 0) to = (char *)to + k, n -= k;
  }
  return 0;
}
int write_all(int fd, const void *from, int64_t n) {
  while (n > 0) {
    ssize_t k = send(fd, from, (size_t)n, MSG_NOSIGNAL);
    if (k < 0 && errno != EINTR) return 1;
    if (k > 0) from = (const char *)from + k, n -= k;
  }
  return 0;
}
int64_t bytes_of(const DLTensor *t) { return pf_numel(t) * ((t->dtype.bits * t->dtype.lanes + 7) / 8); }
static int start(void *(*fn)(void *), void *arg) {
  pthread_t id;
  return pthread_create(&id, NULL, fn, arg) || pthread_detach(id);
}

/* ---------------------------------------------------------------- answers */
static void answer_free(answer *a) {
  if (a->value) a->value->deleter(a->value);
  free(a);
}
static void unref(connection *c) {
  if (__atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL)) return;
  while (c->first) {
    answer *a = c->first;
    c->first = a->next;
    answer_free(a);
  }
  close(c->fd);
  pthread_mutex_destroy(&c->lock), pthread_cond_destroy(&c->more);
  free(c);
}
static void end(connection *c) {
  pthread_mutex_lock(&c->lock);
  c->ended = 1;
  pthread_cond_signal(&c->more);
  pthread_mutex_unlock(&c->lock);
  shutdown(c->fd, SHUT_RDWR);
}

/* A tensor was sent under the key, or its step failed; on any thread. */
static void taken(void *arg, pf_status st, DLManagedTensorVersioned *value, int32_t dead) {
  asked q = *(asked *)arg;
  free(arg);
  answer *a = calloc(1, sizeof *a);
  if (!a) {
    if (value) value->deleter(value);
    end(q.c), unref(q.c);
    return;
  }
  a->value = value;
  a->head = (answer_head){.id = q.id, .status = st, .dead = dead};
  if (value) {
    a->head.type = q.c->of->host->type_of(value);
    a->head.ndim = value->dl_tensor.ndim;
    a->head.bytes = bytes_of(&value->dl_tensor);
  }
  pthread_mutex_lock(&q.c->lock);
  if (q.c->last) q.c->last->next = a;
  else q.c->first = a;
  q.c->last = a;
  pthread_cond_signal(&q.c->more);
  pthread_mutex_unlock(&q.c->lock);
  unref(q.c);
}

static int written(int fd, const answer *a) {
  if (write_all(fd, &a->head, sizeof a->head)) return 1;
  if (!a->value) return 0;
  const DLTensor *t = &a->value->dl_tensor;
  return write_all(fd, t->shape, t->ndim * (int64_t)sizeof *t->shape) || write_all(fd, PF_DATA(char, t), a->head.bytes);
}

static void *writes(void *arg) {
  connection *c = arg;
  for (int failed = 0; !failed;) {
    pthread_mutex_lock(&c->lock);
    while (!c->first && !c->ended) pthread_cond_wait(&c->more, &c->lock);
    answer *a = c->ended ? NULL : c->first;
    if (a) c->first = a->next;
    if (!c->first) c->last = NULL;
    pthread_mutex_unlock(&c->lock);
    failed = !a || written(c->fd, a);
    if (a) answer_free(a);
  }
  end(c), unref(c);
  return NULL;
}

/* ---------------------------------------------------------------- what is asked for */
static int take_one(connection *c) {
  const pf_transport2 *t = transport(c->of->host);
  ask_head h;
  char key[MAX_KEY];
  if (read_all(c->fd, &h, sizeof h) || h.key_n > MAX_KEY || read_all(c->fd, key, (int64_t)h.key_n)) return 1;
  asked *q = malloc(sizeof *q);
  if (!q) return 1;
  *q = (asked){c, h.id};
  __atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
  pf_status st = t->take(c->of->task, (pf_step_key){h.session, h.step}, h.incarnation, (pf_str){key, (int64_t)h.key_n}, taken, q);
  if (st) taken(q, st, NULL, 0);
  return 0;
}
static void *reads(void *arg) {
  connection *c = arg;
  while (!take_one(c)) continue;
  end(c), unref(c);
  return NULL;
}

static void *accepts(void *arg) {
  server *s = arg;
  for (;;) {
    int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (fd < 0) return NULL;
    connection *c = of_our_user(fd) ? calloc(1, sizeof *c) : NULL;
    if (!c) {
      close(fd);
      continue;
    }
    c->fd = fd, c->of = s, c->refs = 3;
    pthread_mutex_init(&c->lock, NULL), pthread_cond_init(&c->more, NULL);
    if (start(reads, c)) end(c), unref(c);
    if (start(writes, c)) end(c), unref(c);
    unref(c);
  }
}

int serve(const pf_host *h, pf_task *task) {
  const pf_transport2 *t = transport(h);
  uint64_t incarnation = t->incarnation(task);
  struct sockaddr_un at;
  socklen_t n = address_of(incarnation, &at);
  pthread_mutex_lock(&lock);
  server *s = servers;
  while (s && s->incarnation != incarnation) s = s->next;
  int failed = 0;
  if (!s && (s = calloc(1, sizeof *s))) {
    s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    s->host = h, s->task = task, s->incarnation = incarnation;
    failed = s->fd < 0 || bind(s->fd, (struct sockaddr *)&at, n) || listen(s->fd, 64) || start(accepts, s);
    if (failed) {
      if (s->fd >= 0) close(s->fd);
      free(s);
    } else {
      t->retain(task);                  /* as long as the plugin runs */
      s->next = servers, servers = s;
    }
  }
  pthread_mutex_unlock(&lock);
  return failed || !s;
}

void stop_servers(void) {
  pthread_mutex_lock(&lock);
  for (server *s = servers; s; s = s->next) shutdown(s->fd, SHUT_RDWR);
  pthread_mutex_unlock(&lock);
}
