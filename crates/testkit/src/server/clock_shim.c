/* A server under this library sees a wall clock that a test has moved.
 *
 * Loaded by LD_PRELOAD. The file that TESTKIT_CLOCK names begins with the offset in milliseconds, 8 bytes in the
 * machine's own order; it is mapped, so a change counts from the next reading on. Only the wall clock moves: what a
 * server measures by its steady clock stays true. Nothing in here allocates, because an allocator may read the clock
 * while it is being set up.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *shared;
static const int64_t none;

static int64_t offset_ms(void) {
  if (shared == NULL) {
    const char *path = getenv("TESTKIT_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *map = MAP_FAILED;
    if (file >= 0) {
      map = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
      close(file);
    }
    shared = map == MAP_FAILED ? &none : map;
  }
  return *shared;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int failed = (int)syscall(SYS_clock_gettime, clock, time);
  if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    int64_t offset = offset_ms();
    time->tv_sec += offset / 1000;
    time->tv_nsec += offset % 1000 * 1000000;
    if (time->tv_nsec < 0) {
      time->tv_nsec += 1000000000;
      time->tv_sec -= 1;
    } else if (time->tv_nsec >= 1000000000) {
      time->tv_nsec -= 1000000000;
      time->tv_sec += 1;
    }
  }
  return failed;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *where) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
  if (where != NULL) *where = now.tv_sec;
  return now.tv_sec;
}
