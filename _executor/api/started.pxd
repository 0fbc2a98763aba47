from look_h cimport *
from pyflow._executor.steps cimport Interrupt

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
    cdef object plans           # the Runnable, whose `ret_of` it is
    cdef const int32_t* ret_of
    cdef list hold
    cdef object callback
    cdef bint keep              # results are Kept
    cdef bint quiet             # nobody works for it yet
    cdef Interrupt interrupt    # what a signal handler raised while who waits worked for it
    cdef int raise_interrupt(self) except -1
    cdef object __weakref__
    cdef release(self)

cdef int64_t take_feeds(pf_plan** plans, int n, const int32_t* arg_of, int n_args, object feeds, pf_tensor** args, list hold) except -1
cdef Started begin(object keep, pf_plan** plans, int n, const int32_t* arg_of, const int32_t* ret_of, int n_args, int n_rets,
                   object feeds, object options, object done, object key, int by)
