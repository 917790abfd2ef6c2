/* Counts heap allocations of the whole process, those of the library included: heap_count.c defines
 * malloc and its kin and hands on to glibc's. */
#ifndef HEAP_COUNT_H
#define HEAP_COUNT_H

/* Allocations since the process started; frees are not counted. */
unsigned long heap_count(void);

#endif
