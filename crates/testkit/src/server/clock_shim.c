/* A server under this library sees a wall clock that a test has moved.
 *
 * Loaded by LD_PRELOAD. TESTKIT_CLOCK names the file with the offset in milliseconds. Only the wall clock moves: what a
 * server measures by its steady clock stays true.
 */
#define _GNU_SOURCE
#include "shared_number.h"
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
  int failed = (int)syscall(SYS_clock_gettime, clock, time);
  if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    int64_t offset = shared_number("TESTKIT_CLOCK");
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
