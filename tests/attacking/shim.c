/* Counts the file operations of the processes into which it is preloaded, and ends or disturbs them at one of them.

   The control block is a file, named by ATTACK_CONTROL, that all these processes map. The harness writes mode, number and folder; the
   counter is shared. Only operations that change something below the folder are counted: opening for writing, writing, syncing, renaming,
   removing, truncating, making and removing folders. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OFF, COUNT, KILL, FAIL };
enum { BEFORE, AFTER, HALF };

struct control {
    int32_t mode;     /* what happens at operation `number` */
    int32_t moment;   /* of a kill: before, after, or in the middle of a write */
    int32_t number;   /* which operation, from 1; failures also hit all later ones */
    int32_t error;    /* errno of a failure */
    int32_t counter;  /* operations so far */
    int32_t hits;     /* operations that were disturbed */
    char folder[PATH_MAX];
};

static struct control *control;

__attribute__((constructor)) static void map_control(void) {
    const char *name = getenv("ATTACK_CONTROL");
    if (!name) return;
    int descriptor = open(name, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return;
    void *place = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (place != MAP_FAILED) control = place;
}

static int is_inside(const char *path) {
    char whole[2 * PATH_MAX];
    if (!path) return 0;
    if (path[0] != '/') {
        if (!getcwd(whole, PATH_MAX)) return 0;
        size_t length = strlen(whole);
        snprintf(whole + length, sizeof whole - length, "/%s", path);
        path = whole;
    }
    size_t length = strlen(control->folder);
    return !strncmp(path, control->folder, length) && (path[length] == '/' || !path[length]);
}

static int is_inside_fd(int descriptor) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return is_inside(path);
}

static int armed(void) { return control && control->mode != OFF; }

static void die(void) {
    __atomic_add_fetch(&control->hits, 1, __ATOMIC_SEQ_CST);
    kill(getpid(), SIGKILL);
    pause();
}

/* Count an operation. Returns 1 if it has to fail, 2 if the process is to die after it, 3 in the middle of it. */
static int count(int can_fail) {
    int number = __atomic_add_fetch(&control->counter, 1, __ATOMIC_SEQ_CST);
    if (control->mode == KILL && number == control->number) {
        if (control->moment == BEFORE) die();
        return control->moment == AFTER ? 2 : 3;
    }
    if (control->mode == FAIL && number >= control->number && can_fail) {
        __atomic_add_fetch(&control->hits, 1, __ATOMIC_SEQ_CST);
        errno = control->error;
        return 1;
    }
    return 0;
}

#define ORIGINAL(name) static __typeof__(&name) original; if (!original) original = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define END(what, result) do { int kept = errno; if (what >= 2) die(); errno = kept; return result; } while (0)

static int writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)); }

#define OPEN(name)                                                       \
    int name(const char *path, int flags, ...) {                         \
        ORIGINAL(name);                                                  \
        va_list more; va_start(more, flags);                             \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; va_end(more); \
        int what = armed() && writes(flags) && is_inside(path) ? count(1) : 0; \
        if (what == 1) return -1;                                        \
        int result = original(path, flags, mode);                        \
        END(what, result);                                               \
    }
OPEN(open)
OPEN(open64)

#define WRITE(name, parameters, arguments, half)                         \
    ssize_t name parameters {                                            \
        ORIGINAL(name);                                                  \
        int what = armed() && is_inside_fd(descriptor) ? count(1) : 0;   \
        if (what == 1) {                                                 \
            /* A disk that becomes full takes a part first. */           \
            if (control->error == ENOSPC && control->counter == control->number && length > 1) { size_t whole = length; length = whole / 2; return original arguments; } \
            return -1;                                                   \
        }                                                                \
        if (what == 3 && length > 1) { length /= 2; (void)!original arguments; die(); } \
        ssize_t result = original arguments;                             \
        END(what, result);                                               \
    }
WRITE(write, (int descriptor, const void *buffer, size_t length), (descriptor, buffer, length), )
WRITE(pwrite, (int descriptor, const void *buffer, size_t length, off_t at), (descriptor, buffer, length, at), )
WRITE(pwrite64, (int descriptor, const void *buffer, size_t length, off64_t at), (descriptor, buffer, length, at), )

#define PLAIN(name, parameters, arguments, inside, can_fail)             \
    int name parameters {                                                \
        ORIGINAL(name);                                                  \
        int what = armed() && (inside) ? count(can_fail) : 0;            \
        if (what == 1) return -1;                                        \
        int result = original arguments;                                 \
        END(what, result);                                               \
    }
/* A full disk still renames, syncs, removes and shortens files; one that cannot be written to does none of it. */
#define UNLESS_FULL (control->error != ENOSPC)
PLAIN(fsync, (int descriptor), (descriptor), is_inside_fd(descriptor), UNLESS_FULL)
PLAIN(fdatasync, (int descriptor), (descriptor), is_inside_fd(descriptor), UNLESS_FULL)
PLAIN(rename, (const char *from, const char *to), (from, to), is_inside(to), UNLESS_FULL)
PLAIN(unlink, (const char *path), (path), is_inside(path), UNLESS_FULL)
PLAIN(rmdir, (const char *path), (path), is_inside(path), UNLESS_FULL)
PLAIN(mkdir, (const char *path, mode_t mode), (path, mode), is_inside(path), 1)
PLAIN(truncate, (const char *path, off_t length), (path, length), is_inside(path), UNLESS_FULL)
PLAIN(truncate64, (const char *path, off64_t length), (path, length), is_inside(path), UNLESS_FULL)
PLAIN(ftruncate, (int descriptor, off_t length), (descriptor, length), is_inside_fd(descriptor), UNLESS_FULL)
PLAIN(ftruncate64, (int descriptor, off64_t length), (descriptor, length), is_inside_fd(descriptor), UNLESS_FULL)
