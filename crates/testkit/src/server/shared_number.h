/* A number that a test changes while a server runs.
 *
 * It lies in the file that an environment variable names: 8 bytes in the machine's own order. The file is mapped, so a
 * change counts from the next reading on. Without the variable or the file the number is 0. Nothing in here allocates,
 * because an allocator may call a function of the shim while it is being set up.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int64_t shared_number(const char *variable) {
  static volatile const int64_t *number;
  static const int64_t zero;
  if (number == NULL) {
    const char *path = getenv(variable);
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *map = MAP_FAILED;
    if (file >= 0) {
      map = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
      close(file);
    }
    number = map == MAP_FAILED ? &zero : map;
  }
  return *number;
}
