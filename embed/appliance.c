/* embed/consumer.c on an appliance: one processor, 32 MiB of address space to spare, and a root
 * folder that is empty and cannot be written, as user nobody: no /proc, no /etc/resolv.conf.
 * Says "skipped: " and why where the system does not let it make such a place. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define APPLIANCE
#include "consumer.c"

#define SPARE ((rlim_t)32 << 20)

/* Of the memory in use; the descriptor was opened before /proc went out of sight. */
static long pages(int statm) {
  char text[128];
  ssize_t n = pread(statm, text, sizeof text - 1, 0);
  text[n > 0 ? n : 0] = 0;
  return atol(text);
}

static int skip(const char *what) {
  printf("skipped: %s: %s\n", what, strerror(errno));
  return 77;
}

static int one_processor(void) {
  cpu_set_t all, one;
  int cpu = 0;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return -1;
  while (!CPU_ISSET(cpu, &all)) cpu++;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  return sched_setaffinity(0, sizeof one, &one);
}

static int there(const char *path, int flags) {
  int fd = open(path, flags, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

static int child(const char *folder) {
  struct rlimit limit;
  struct rusage used;
  long before, after, page = sysconf(_SC_PAGESIZE);
  int statm = open("/proc/self/statm", O_RDONLY);
  if (statm < 0) return skip("/proc/self/statm");
  if (geteuid() != 0 && unshare(CLONE_NEWUSER) != 0) return skip("unshare");
  if (chroot(folder) != 0 || chdir("/") != 0) return skip("chroot");
  if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return skip("setuid");
  if (there("/proc/self/stat", O_RDONLY) || there("/etc/resolv.conf", O_RDONLY)) return fail("not empty");
  if (there("/file", O_WRONLY | O_CREAT)) return fail("the folder can be written");
  if (one_processor() != 0) return skip("sched_setaffinity");
  before = pages(statm);
  limit.rlim_cur = limit.rlim_max = (rlim_t)(before * page) + SPARE;
  if (setrlimit(RLIMIT_AS, &limit) != 0) return skip("setrlimit");
  /* Proof that the limit holds. */
  {
    void *volatile more = malloc((size_t)SPARE + (1u << 20));
    if (more != NULL) return fail("the limit does not hold");
  }
  if (one_record() != 0) return 1;
  after = pages(statm);
  getrusage(RUSAGE_SELF, &used);
  printf("one record; %ld KiB of address space left behind, peak rss %ld KiB\n",
         (after - before) * page / 1024, used.ru_maxrss);
  return 0;
}

int main(void) {
  char folder[] = "/tmp/kloop-XXXXXX";
  int status = 1;
  pid_t pid;
  if (mkdtemp(folder) == NULL || chmod(folder, 0555) != 0) return skip("mkdtemp");
  pid = fork();
  if (pid == 0) {
    int code = child(folder);
    fflush(stdout);
    _exit(code);
  }
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return fail("no child");
  rmdir(folder);
  if (WIFSIGNALED(status)) return fail("the child was killed");
  return WEXITSTATUS(status);
}
