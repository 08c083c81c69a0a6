/* A server under this library has a slow disk.
 *
 * Loaded by LD_PRELOAD. TESTKIT_DISK names the file with the least time of each flush, in milliseconds. Writes are as
 * fast as ever, and reach the system's cache.
 */
#define _GNU_SOURCE
#include "shared_number.h"
#include <sys/syscall.h>
#include <time.h>

static void wait_for_the_disk(void) {
  int64_t delay_ms = shared_number("TESTKIT_DISK");
  struct timespec pause = { delay_ms / 1000, delay_ms % 1000 * 1000000 };
  if (delay_ms > 0) nanosleep(&pause, NULL);
}

int fdatasync(int file) {
  wait_for_the_disk();
  return (int)syscall(SYS_fdatasync, file);
}

int fsync(int file) {
  wait_for_the_disk();
  return (int)syscall(SYS_fsync, file);
}
