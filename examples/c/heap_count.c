/* malloc and its kin, counted. Link it into a program to count what everything in it allocates. */
#include "heap_count.h"

#include <errno.h>
#include <stddef.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void *realloc(void *old, size_t size);
void *memalign(size_t align, size_t size);
void *aligned_alloc(size_t align, size_t size);
int posix_memalign(void **out, size_t align, size_t size);

static unsigned long count;

unsigned long heap_count(void) { return __atomic_load_n(&count, __ATOMIC_RELAXED); }

static void one_more(void) { __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED); }

void *malloc(size_t size) {
  one_more();
  return __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
  one_more();
  return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size) {
  one_more();
  return __libc_realloc(old, size);
}

void *memalign(size_t align, size_t size) {
  one_more();
  return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }

int posix_memalign(void **out, size_t align, size_t size) {
  void *at = memalign(align, size);
  if (at == NULL) return ENOMEM;
  *out = at;
  return 0;
}
