# SPDX-License-Identifier: Apache-2.0
"""faults.py BUILD [SECONDS [SEED]] - lets system calls of judge, reader, compiler and cages fail, one at a time.

A correct entrant is judged: it passes, or its verdict is ERROR with a reason. It never fails, and has no grade. The judge
itself may be kept from beginning.

strace lists the calls of an undisturbed run and injects the errors: the N-th call of that name, in each process that gets
so far, returns one of the errors that its manual names. All pairs of call and error are tried at N = 1, then at larger N
drawn from the seed, until SECONDS have passed. Answers 77 where strace cannot trace."""
import collections
import os
import random
import re
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1])
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 600
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 32)
CASE = "softmax_topk/f32/rows=9,vocab=33,k=5,pad=2,heat=100,lse=1/normal@0x5eed"
ENTRANTS = ["example/entrant/softmax_topk.c", "contest/entrant/numpy"]

# What a machine that is short of something answers. A call that is not listed cannot fail on its account.
SHORT = {
    "ENOMEM": "mmap mprotect mremap brk clone clone3 fork vfork execve prctl madvise mlock ptrace",
    "EAGAIN": "clone clone3 fork vfork mlock",
    "EMFILE": "open openat pipe pipe2 socket socketpair dup dup2 dup3 memfd_create eventfd2 epoll_create1 accept4 fcntl userfaultfd",
    "ENFILE": "openat pipe2 socket socketpair memfd_create",
    "ENOSPC": "openat mkdir mkdirat write writev pwrite64 ftruncate fallocate rename renameat symlink link unshare",
    "EROFS": "openat mkdir unlink rename",
    "EIO": "read pread64 write fsync fdatasync readlink getdents64 statx newfstatat",
    "EINTR": "read write wait4 waitid poll ppoll select nanosleep clock_nanosleep openat",
    "EPERM": "unshare mount umount2 pivot_root setns sched_setscheduler sched_setaffinity setpriority prlimit64 setrlimit "
             "setresuid setresgid setgroups capset seccomp prctl perf_event_open kill mount_setattr open_tree move_mount",
    "ENOSYS": "userfaultfd perf_event_open mount_setattr open_tree move_mount pidfd_open close_range memfd_create seccomp",
}


def judge(entrant, log, *before):
    """Exit status and what was said; 124 if it does not end."""
    try:
        run = subprocess.run([*before, BUILD + "/touchstone", "judge", "--challenge", "softmax_topk", "--case", CASE, "--log", log, entrant],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=240)
        return run.returncode, run.stdout
    except subprocess.TimeoutExpired:
        return 124, "no end"


def calls_of(entrant, folder):
    """Names of the calls that a run makes, and how many of each one process makes at most."""
    out = os.path.join(folder, "trace")
    status, said = judge(entrant, os.path.join(folder, "log"), "strace", "-ff", "-qq", "-o", out)
    if status:
        print("faults: undisturbed, but traced: status %d: %s" % (status, said[-2000:]))
        sys.exit(1)
    most = collections.Counter()
    for name in os.listdir(folder):
        if name.startswith("trace."):
            with open(os.path.join(folder, name), errors="replace") as f:
                seen = collections.Counter(m[1] for m in (re.match(r"(\w+)\(", line) for line in f) if m)
            for call, n in seen.items():
                most[call] = max(most[call], n)
            os.remove(os.path.join(folder, name))
    return most


def main():
    if subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        print("skipped: strace is missing or may not trace")
        sys.exit(77)
    begun, draw = time.time(), random.Random(SEED)
    ends, bad, n = collections.Counter(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        most = {e: calls_of(e, folder) for e in ENTRANTS}
        pairs = [(e, call, error) for e in ENTRANTS for error, calls in SHORT.items() for call in calls.split() if most[e][call]]
        print("faults: seed %d, %d pairs of call and error, %g s" % (SEED, len(pairs), SECONDS), flush=True)
        first = [(e, c, r, 1) for e, c, r in pairs]
        draw.shuffle(first)
        while time.time() - begun < SECONDS:
            if first:
                entrant, call, error, at = first.pop()
            else:
                entrant, call, error = draw.choice(pairs)
                at = draw.randint(1, most[entrant][call])
            log = os.path.join(folder, "log")
            status, said = judge(entrant, log, "strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=" + call,
                                 "-e", "inject=%s:error=%s:when=%d" % (call, error, at))
            what = {0: "passed", 3: "error"}.get(status, "wrong")
            if what == "wrong" and "FAIL" not in said and not os.path.exists(log):
                what = "did not begin"  # the system's loader, or a library as it was loaded
            if "FAIL" in said or (status == 3 and not re.search(r"\S", said)):
                what = "wrong"
            ends[what] += 1
            n += 1
            if what == "wrong":
                bad += 1
                print("faults: %s: call %d of %s is %s: status %d\n%s" % (entrant, at, call, error, status, said[:1500]), flush=True)
            for left in os.listdir(folder):
                if left.startswith("log"):
                    os.remove(os.path.join(folder, left))
    print("faults: %d of %d pairs at least once; %d runs: %s" %
          (len(pairs) - len(first), len(pairs), n, ", ".join("%d %s" % (v, k) for k, v in sorted(ends.items()))))
    sys.exit(bad > 0)


main()
