/* faults.h - what the two faulty plugins of test_faults.py share: nothing but pyflow/kernel.h and the C library. */
#ifndef FAULTS_H
#define FAULTS_H
#include <pyflow/kernel.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#endif
