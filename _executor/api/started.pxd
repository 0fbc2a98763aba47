from look_h cimport *
from pyflow._executor.steps cimport Interrupt, Rendezvous, Trace
from pyflow._executor.tasks cimport Task

cdef extern from *:
    """
    typedef struct {                    /* how a step ended, for whoever waits: `lock` guards all of it */
      pthread_mutex_t lock;
      pthread_cond_t cond;
      int32_t over, pad;
      pf_status status;
      pf_error error;
      int64_t n_rets;
      pf_tensor **rets;                 /* taken by the first that asks for the results */
      void *object;                     /* the Started, until its callback was called; NULL: it has none */
    } pf_landing;
    """
    ctypedef struct pf_landing:
        pthread_mutex_t lock
        pthread_cond_t cond
        int32_t over
        pf_status status
        pf_error error
        int64_t n_rets
        pf_tensor** rets
        void* object

cdef class Started:
    cdef pf_landing* l
    cdef pf_started* h
    cdef tuple plans, order
    cdef Task task              # whose step it is; None: nobody's
    cdef list hold
    cdef object callback
    cdef bint quiet             # nobody works for it yet
    cdef Interrupt interrupt    # what a signal handler raised while who waits worked for it
    cdef int raise_interrupt(self) except -1
    cdef object __weakref__
    cdef release(self)

cdef Started begin(tuple keep, pf_plan** plans, int n, tuple arg_numbers, tuple order, object feeds, int64_t timeout_ms,
                   Rendezvous rendezvous, callback, Task task, session, step, Trace trace, bint quiet, bint here=*)
