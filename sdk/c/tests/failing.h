/* Allocations of pilotlight.c in the tests; the C library's headers come first, whose names must not be replaced. */
#include <stddef.h>
void *test_malloc(size_t size);
void *test_calloc(size_t count, size_t size);
void *test_realloc(void *bytes, size_t size);
