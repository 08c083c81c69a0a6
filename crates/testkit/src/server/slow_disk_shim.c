/* A server under this library has a disk that takes its time.
 *
 * Loaded by LD_PRELOAD. The file that TESTKIT_DISK names begins with how long each flush to the disk takes at least, in
 * milliseconds, 8 bytes in the machine's own order; it is mapped, so a change counts from the next flush on. Writes are
 * as fast as ever, and reach the system's cache.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *shared;
static const int64_t none;

static void wait_for_the_disk(void) {
  if (shared == NULL) {
    const char *path = getenv("TESTKIT_DISK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *map = MAP_FAILED;
    if (file >= 0) {
      map = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
      close(file);
    }
    shared = map == MAP_FAILED ? &none : map;
  }
  int64_t delay_ms = *shared;
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
