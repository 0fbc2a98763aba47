# cython: language_level=3
"""What the core uses of the C library.  Every .pxd that gen_pxd.py writes begins with it."""
from libc.stddef cimport size_t
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdint cimport uintptr_t, intmax_t, uintmax_t
from libc.stdlib cimport malloc, calloc, realloc, free, abort, getenv, strtod, strtoll, qsort
from libc.string cimport memcpy, memmove, memset, memcmp, strlen, strcmp, strncmp, strchr
from libc.string cimport strstr, strdup
from libc.stdio cimport snprintf, FILE, fprintf, stderr, fputs, fflush, fopen, fread, fclose
from libc.errno cimport errno

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t:
        pass
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    ctypedef struct pthread_attr_t:
        pass
    ctypedef struct pthread_key_t:
        pass
    int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*) noexcept nogil,
                       void*) noexcept
    int pthread_join(pthread_t, void**) noexcept
    int pthread_detach(pthread_t) noexcept
    pthread_t pthread_self() noexcept
    int pthread_equal(pthread_t, pthread_t) noexcept
    int pthread_mutex_init(pthread_mutex_t*, const void*) noexcept
    int pthread_mutex_destroy(pthread_mutex_t*) noexcept
    int pthread_mutex_lock(pthread_mutex_t*) noexcept
    int pthread_mutex_trylock(pthread_mutex_t*) noexcept
    int pthread_mutex_unlock(pthread_mutex_t*) noexcept
    int pthread_cond_init(pthread_cond_t*, const void*) noexcept
    int pthread_cond_destroy(pthread_cond_t*) noexcept
    int pthread_cond_wait(pthread_cond_t*, pthread_mutex_t*) noexcept
    int pthread_cond_timedwait(pthread_cond_t*, pthread_mutex_t*, const timespec*) noexcept
    int pthread_cond_signal(pthread_cond_t*) noexcept
    int pthread_cond_broadcast(pthread_cond_t*) noexcept
    int pthread_atfork(void (*)() noexcept nogil, void (*)() noexcept nogil,
                       void (*)() noexcept nogil) noexcept
    int pthread_attr_init(pthread_attr_t*) noexcept
    int pthread_attr_destroy(pthread_attr_t*) noexcept
    int pthread_attr_getstacksize(const pthread_attr_t*, size_t*) noexcept
    int pthread_attr_setstacksize(pthread_attr_t*, size_t) noexcept

cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    cdef struct timespec:
        time_t tv_sec
        long tv_nsec
    int clock_gettime(int, timespec*) noexcept
    int nanosleep(const timespec*, timespec*) noexcept
    enum:
        CLOCK_REALTIME
        CLOCK_MONOTONIC

cdef extern from "<sched.h>" nogil:
    int sched_yield() noexcept

cdef extern from "<unistd.h>" nogil:
    long sysconf(int) noexcept
    int usleep(unsigned int) noexcept

cdef extern from * nogil:           # the compiler's, by the prologue of slice.py
    int likely(int) noexcept
    int unlikely(int) noexcept
