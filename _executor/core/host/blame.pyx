# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Who is named when a function of a plugin that is not our own goes wrong.

While a function of such a plugin runs, its thread's BLAME says which, for which node: a fatal signal, or exit() out of a
kernel, then says so on stderr before the process ends as it would have.  A helper of parallel_for takes the blame of the
loop's thread over while it is inside.

Invariants
1. The handler calls nothing that is not async-signal-safe; whoever handled the signal before gets it afterwards.
2. A blame lies on the stack of the function that entered it, and is left before that returns.

Threads: any.  Handlers are installed once, when the first such plugin is registered, by the host that wants it (pf_blame_watch).

    pf_blame b;
    pf_blame_enter(&b, "the kernel", plugin_id, node, op);
    st = kernel->compute(ctx, state);
    pf_blame_leave(&b);
"""
from host_h cimport *

cdef extern from *:
    """
    #include <errno.h>
    #include <signal.h>
    #include <unistd.h>
    enum { PF_ALT_STACK = 64 << 10 };       /* a signal's frame with AMX state, and the handler */
    static __thread pf_blame *pf_blamed;
    static __thread int pf_has_alt_stack;
    static int pf_blame_watched;
    static pthread_key_t pf_alt_stack_key;
    static struct sigaction pf_signals_before[NSIG];
    static const int pf_fatal_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

    static size_t pf_blame_put(char *to, size_t at, size_t room, const char *text, size_t n) {
      if (n > room - at) n = room - at;
      if (n) memcpy(to + at, text, n);
      return at + n;
    }
    static void pf_blame_say(const pf_blame *b, const char *happened) {
      char text[1200];
      size_t n = 0, room = sizeof text - 1;
      const char *const words[] = {"pyflow: ", happened, " in ", b->what, " of plugin '", b->plugin, "'"};
      for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        n = pf_blame_put(text, n, room, words[k] ? words[k] : "?", words[k] ? strnlen(words[k], 300) : 1);
      if (b->node.len > 0) {
        n = pf_blame_put(text, n, room, ", node '", 8);
        n = pf_blame_put(text, n, room, b->node.data, b->node.len < 300 ? (size_t)b->node.len : 300);
        n = pf_blame_put(text, n, room, "'", 1);
      }
      if (b->op.len > 0) {
        n = pf_blame_put(text, n, room, ", op ", 5);
        n = pf_blame_put(text, n, room, b->op.data, b->op.len < 100 ? (size_t)b->op.len : 100);
      }
      text[n++] = '\\n';
      if (write(2, text, n) < 0) return;
    }
    static void pf_blame_signal(int number, siginfo_t *info, void *context) {
      const pf_blame *b = pf_blamed;
      int keep = errno;
      (void)context;
      pf_blamed = NULL;
      if (b)
        pf_blame_say(b, number == SIGSEGV ? "SIGSEGV" : number == SIGBUS ? "SIGBUS" : number == SIGFPE ? "SIGFPE" :
                        number == SIGILL ? "SIGILL" : "SIGABRT");
      sigaction(number, &pf_signals_before[number], NULL);
      if (number == SIGABRT || info->si_code <= 0) raise(number); /* a fault comes again by itself */
      errno = keep;
    }
    static void pf_blame_exit(void) {
      if (pf_blamed) pf_blame_say(pf_blamed, "exit() was called");
    }
    static void pf_alt_stack_over(void *memory) {
      stack_t off = {.ss_flags = SS_DISABLE};
      sigaltstack(&off, NULL);
      free(memory);
    }
    static void pf_alt_stack(void) {            /* an overflown stack is told too */
      stack_t now;
      pf_has_alt_stack = 1;
      if (sigaltstack(NULL, &now) || !(now.ss_flags & SS_DISABLE)) return;
      stack_t own = {.ss_sp = malloc(PF_ALT_STACK), .ss_size = PF_ALT_STACK};
      if (own.ss_sp && (pthread_setspecific(pf_alt_stack_key, own.ss_sp) || sigaltstack(&own, NULL))) free(own.ss_sp);
    }
    void pf_blame_watch(void) {
      struct sigaction action;
      if (__atomic_exchange_n(&pf_blame_watched, 1, __ATOMIC_ACQ_REL)) return;
      if (pthread_key_create(&pf_alt_stack_key, pf_alt_stack_over)) return;
      memset(&action, 0, sizeof action);
      action.sa_sigaction = pf_blame_signal;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
      sigemptyset(&action.sa_mask);
      for (size_t k = 0; k < sizeof pf_fatal_signals / sizeof *pf_fatal_signals; k++)
        sigaction(pf_fatal_signals[k], &action, &pf_signals_before[pf_fatal_signals[k]]);
      atexit(pf_blame_exit);
      __atomic_store_n(&pf_blame_watched, 2, __ATOMIC_RELEASE);
    }
    static inline void pf_blame_begin(pf_blame *b) {
      if (!pf_has_alt_stack && __atomic_load_n(&pf_blame_watched, __ATOMIC_ACQUIRE) == 2) pf_alt_stack();
      b->outer = pf_blamed;
      pf_blamed = b;
    }
    pf_blame *pf_blame_now(void) { return pf_blamed; }
    pf_blame *pf_blame_swap(pf_blame *b) {
      pf_blame *was = pf_blamed;
      pf_blamed = b;
      return was;
    }
    """
    void pf_blame_begin(pf_blame*) noexcept nogil

# ---------------------------------------------------------------- blame
cdef public int32_t pf_is_own(const char* plugin_id) noexcept nogil:
    """The plugins that this project ships; pyflow/plugins.py keeps others from taking their ids."""
    return (strcmp(plugin_id, b"pyflow.cpu") == 0 or strcmp(plugin_id, b"pyflow.cuda") == 0
            or strcmp(plugin_id, b"pyflow.core") == 0 or strcmp(plugin_id, b"pyflow.python") == 0
            or strcmp(plugin_id, b"pyflow.hosted") == 0)

cdef public void pf_blame_enter(pf_blame* b, const char* what, const char* plugin, pf_str node, pf_str op) noexcept nogil:
    b.what = what
    b.plugin = plugin
    b.node = node
    b.op = op
    pf_blame_begin(b)

cdef public void pf_blame_leave(pf_blame* b) noexcept nogil:
    pf_blame_swap(b.outer)
